"""Trainings as runs of Weights & Biases: settings, metrics of each epoch, the recipe."""

from cntk_hook_wandb.listener import WandB

__all__ = ["WandB"]
