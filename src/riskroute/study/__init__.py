"""Backtests, the study that answers which router to use, and its page."""
