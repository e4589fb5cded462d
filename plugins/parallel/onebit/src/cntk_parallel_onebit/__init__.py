"""Gradients of 1 to 16 bits with error feedback (1-bit SGD)."""

from cntk_parallel_onebit.aggregation import OneBit, OneBitOptions

__all__ = ["OneBit", "OneBitOptions"]
