"""Evaluators."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.eval.evaluator import Evaluator

__all__ = ["Evaluator"]

inherit(__name__)
