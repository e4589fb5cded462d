"""One process at a time writes a model."""
