"""The version, which both the build and the package read from here."""

__version__ = "0.1.0"
