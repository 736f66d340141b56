"""Routers from the literature, for lit venues or dark pools, each with its source."""
