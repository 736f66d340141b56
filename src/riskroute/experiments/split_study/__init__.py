"""The study: from recorded books to a recommendation."""
