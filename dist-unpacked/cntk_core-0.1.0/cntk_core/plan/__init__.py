"""The plan: what is computed in which order, which gradients are needed, which buffers are shared."""
