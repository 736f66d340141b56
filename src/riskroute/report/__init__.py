"""Figures. Reads results, computes nothing."""
