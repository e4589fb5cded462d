"""Values of a model for a file of data."""
