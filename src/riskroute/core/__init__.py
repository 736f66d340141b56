"""Code that all rooms share: errors, array types, validation, files, text, random streams, configuration, records."""
