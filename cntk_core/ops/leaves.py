"""The leaves of a network: inputs and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.ops.op import Op
from cntk_core.ops.shapes import Shape


def _declared(shapes: Sequence[Shape], attributes: Any) -> Shape:
    raise AssertionError("the shape of a leaf is declared, not inferred")


INPUT = Op("InputValue", (0, 0), _declared, role="input", aliases={"ndl": ("Input",)}, doc="A stream of the reader.")
SPARSE_INPUT = Op(
    "SparseInputValue", (0, 0), _declared, role="input", aliases={"ndl": ("SparseInput",)}, doc="A sparse stream."
)
PARAMETER = Op(
    "LearnableParameter", (0, 0), _declared, role="parameter", aliases={"ndl": ("Parameter",)}, doc="A learned tensor."
)

OPS = (INPUT, SPARSE_INPUT, PARAMETER)
