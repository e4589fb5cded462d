"""Seeing a run: a log for programs, learning curves, and a display in a notebook."""
