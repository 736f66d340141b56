"""Routers: one decision per order, made from the books of the moment, and what is learned from its child orders."""
