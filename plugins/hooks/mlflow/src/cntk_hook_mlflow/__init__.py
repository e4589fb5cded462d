"""Trainings as runs of MLflow: parameters, metrics of each epoch, the recipe."""

from cntk_hook_mlflow.listener import MLflow

__all__ = ["MLflow"]
