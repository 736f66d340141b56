"""Venues of the live router: the interface to them, and one file per kind of venue."""
