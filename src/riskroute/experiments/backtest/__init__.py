"""Routers compared on recorded days: the same books, the same hidden shares, one benchmark price for all."""
