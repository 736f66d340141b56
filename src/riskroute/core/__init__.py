"""Shared tools: errors, array types, validation, files, text, random streams, configuration, results."""
