"""Functions as records: what they are made of, their shapes, how they become a network that an engine computes."""
