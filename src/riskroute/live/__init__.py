"""The live router: every action is logged before it is taken, and the state follows from the log alone."""
