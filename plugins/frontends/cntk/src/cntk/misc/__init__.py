"""Conversions of graphs."""
