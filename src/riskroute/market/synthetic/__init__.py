"""A synthetic market: order flow, and the files an exchange would publish of it."""
