"""The state of the live router: records, events, and the pure function that folds events into the state."""
