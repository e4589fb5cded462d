"""Holds nothing: the original converts optimized recurrent stacks here, which are computed as they are."""
