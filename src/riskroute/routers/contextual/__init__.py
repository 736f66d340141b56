"""Contextual router: plans from the current books, learned fill and cost models, and a cap on expected shortfall."""
