"""The leaves of a network: inputs, parameters, dynamic axes and numbers from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.ops.define import declare_op, scalar_shape
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
DYNAMIC_AXIS = Op(
    "DynamicAxis", (0, 0), scalar_shape, role="axis", new_axis=True, doc="A dynamic axis that inputs name as theirs."
)


@attrs.frozen
class EnvironmentInputAttributes:
    """Attributes of EnvironmentInput: the property of the network's environment."""

    property_name: str = ""


ENVIRONMENT_INPUT = declare_op(
    "EnvironmentInput",
    "A number of the network's environment, by its name.",
    inputs=0,
    infer=scalar_shape,
    attributes=EnvironmentInputAttributes,
    differentiable=(False,),
)

OPS = (INPUT, SPARSE_INPUT, PARAMETER, DYNAMIC_AXIS, ENVIRONMENT_INPUT)
