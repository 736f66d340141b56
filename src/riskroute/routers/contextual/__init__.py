"""Contextual routers: plans from the current books, learned fill and cost models, a cap on expected shortfall."""
