"""Execution engine for the CPU: a compiled plan over preallocated buffers."""
