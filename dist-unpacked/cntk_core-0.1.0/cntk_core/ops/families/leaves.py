"""The leaves of a network: inputs, parameters, dynamic axes and numbers from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op, scalar_shape
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape


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

PLACEHOLDER = Op("Placeholder", (0, 0), _declared, role="placeholder", doc="What is not known yet.")
"""Of nodes that are replaced before a network is complete; no language and no model file has it."""


@attrs.frozen
class EnvironmentInputAttributes:
    """Attributes of EnvironmentInput: the property of the network's environment (``isTraining``)."""

    property_name: str = ""


def _infer_environment(shapes: Sequence[Shape], attributes: EnvironmentInputAttributes) -> Shape:
    if attributes.property_name != "isTraining":
        raise ShapeError(
            f"there is no environment property '{attributes.property_name}'", hint="Properties: isTraining"
        )
    return (1,)


@define_op(
    "EnvironmentInput",
    inputs=0,
    infer=_infer_environment,
    attributes=EnvironmentInputAttributes,
    differentiable=(False,),
)
def ENVIRONMENT_INPUT(
    xp: Any, inputs: Sequence[Array], attributes: EnvironmentInputAttributes, context: OpContext
) -> Array:
    """A number of the network's environment, by its name: isTraining is 1 in training and 0 elsewhere."""
    return xp.full((1,), float(context.training))


OPS = (INPUT, SPARSE_INPUT, PARAMETER, DYNAMIC_AXIS, ENVIRONMENT_INPUT)
