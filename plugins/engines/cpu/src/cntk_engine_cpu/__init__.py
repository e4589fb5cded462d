"""Execution engine for the CPU: a compiled plan over preallocated buffers."""

from cntk_engine_cpu.engine import CpuEngine, CpuOptions
from cntk_engine_cpu.program import CpuProgram

__all__ = ["CpuEngine", "CpuOptions", "CpuProgram"]
