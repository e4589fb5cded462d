"""``cntk runs``: what earlier runs have left, side by side."""
