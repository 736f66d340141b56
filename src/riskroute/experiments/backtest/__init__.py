"""The back-test of routers: recorded days, the tables of what happened on them, and what it cost."""
