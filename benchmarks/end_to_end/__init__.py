"""Whole trainings: recipes, their data, and the same with PyTorch and with the original."""
