"""Event files of TensorBoard: scalars, histograms of parameters, the graph."""

from cntk_hook_tensorboard.listener import TensorBoard

__all__ = ["TensorBoard"]
