"""Readers of market data files, one per format."""
