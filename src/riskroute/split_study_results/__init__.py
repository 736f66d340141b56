"""What a study found, as typed records: read by the report, written to and read from ``study.json``."""
