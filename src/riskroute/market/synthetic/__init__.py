"""A synthetic market: order flow, and files in the format in which an exchange publishes it."""
