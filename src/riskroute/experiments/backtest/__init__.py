"""Routers judged on recorded days: the same books, the same luck, one benchmark price, and what the difference is."""
