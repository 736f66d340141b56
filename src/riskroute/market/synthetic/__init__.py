"""A synthetic market: simulated order flow, written to files in NASDAQ's ITCH format."""
