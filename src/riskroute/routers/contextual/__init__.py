"""Contextual routers: they plan from the current books with learned fill models, and cap expected shortfall."""
