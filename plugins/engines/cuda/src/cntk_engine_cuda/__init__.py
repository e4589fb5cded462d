"""Execution engine for NVIDIA GPUs."""

from cntk_engine_cuda.engine import CudaEngine, CudaOptions

__all__ = ["CudaEngine", "CudaOptions"]
