"""The live router: what it does is written to a log before it is done, and its state follows from the log."""
