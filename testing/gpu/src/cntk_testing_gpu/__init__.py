"""Stand-ins for GPU libraries, so that code for GPUs is tested without one."""
