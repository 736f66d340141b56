"""Orders, slots and the ways to split one over the other."""
