"""``cntk sweep``: a recipe with several values of some of its keys."""
