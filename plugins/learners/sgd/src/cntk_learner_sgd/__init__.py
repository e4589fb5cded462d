"""Stochastic gradient descent as CNTK does it: unit-gain momentum, Nesterov, per-sample rates."""
