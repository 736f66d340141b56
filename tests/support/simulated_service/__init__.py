"""A deterministic simulation of the whole live service: one seed, one thread, simulated time."""
