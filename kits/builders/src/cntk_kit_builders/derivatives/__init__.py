"""The derivative of a network as a network: how ops write their gradients as nodes, and what puts these together."""
