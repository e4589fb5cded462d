"""Weights of models by name: safetensors and npz, in and out."""

from cntk_model_weights.exchange import Order, load_weights, save_weights

__all__ = ["Order", "load_weights", "save_weights"]
