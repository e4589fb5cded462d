"""Abstract bases of the six plugin kinds and the records that cross them. No logic."""
