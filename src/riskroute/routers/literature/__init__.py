"""Routing methods of the literature, each with its source; all allocate one order over lit venues or dark pools."""
