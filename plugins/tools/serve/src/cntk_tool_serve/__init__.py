"""Serves a model over HTTP."""
