"""Experiments of the papers that routers are taken from, as far as they can be remade without the authors' data."""
