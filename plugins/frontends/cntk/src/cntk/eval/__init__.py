"""Evaluators."""

from __future__ import annotations

from cntk.eval.evaluator import Evaluator

__all__ = ["Evaluator"]
