"""The XLA engine: plans compiled as a whole by JAX."""

from cntk_engine_xla.engine import XlaEngine

__all__ = ["XlaEngine"]
