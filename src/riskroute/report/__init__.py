"""Figures and pages. Reads results, computes nothing."""
