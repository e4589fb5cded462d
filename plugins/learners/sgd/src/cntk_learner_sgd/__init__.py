"""Stochastic gradient descent as CNTK does it: unit-gain momentum, Nesterov, per-sample rates."""

from cntk_learner_sgd.sgd import SGD, SGDOptions

__all__ = ["SGD", "SGDOptions"]
