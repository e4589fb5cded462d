"""A module for each format: how it is known, what is in a file, and what a recipe needs to read it."""
