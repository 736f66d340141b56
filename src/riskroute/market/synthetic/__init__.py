"""A synthetic market: order flow, and its files in the format of an exchange."""
