"""The text of dumpNodes, byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape
from cntk_kit_builders.dump import dump, write_dump

RULE = "#" * 68


def same_shape(shapes: list[Shape], attributes: object) -> Shape:
    return shapes[0]


@pytest.fixture
def weights() -> Parameter:
    """CNTK's [2 x 3] with the rows 1 2 3 and 4 5 6.5."""
    return Parameter.make("W", (3, 2), value=np.array([[1, 4], [2, 5], [3, 6.5]]))


def text(*nodes: Node, values: bool = True, metadata: bool = True) -> str:
    return "".join(dump(nodes, values=values, metadata=metadata))


def test_parameter(weights: Parameter) -> None:
    assert text(weights) == (
        " \nW=LearnableParameter [2,3]   learningRateMultiplier=1.000000  NeedsGradient=true"
        f" \n 1 2 3 \n 4 5 6.5 \n {RULE}"
    )


def test_values_alone(weights: Parameter) -> None:
    assert text(weights, metadata=False) == " 1 2 3 \n 4 5 6.5 \n"


def test_metadata_alone(weights: Parameter) -> None:
    assert text(weights, values=False) == (
        " \nW=LearnableParameter [2,3]   learningRateMultiplier=1.000000  NeedsGradient=true"
    )


@pytest.mark.parametrize(("rate", "needs"), [(0.0, True), (1.0, False)])
def test_parameter_that_is_not_learned(weights: Parameter, rate: float, needs: bool) -> None:
    weights.learning_rate_multiplier, weights.needs_gradient = rate, needs
    assert "learningRateMultiplier=0.000000  NeedsGradient=false" in text(weights)


def test_single_precision_has_nine_digits() -> None:
    third = np.array([[1 / 3]])
    assert text(Parameter.make("a", (1, 1), value=third.astype(np.float32)), metadata=False) == " 0.333333343 \n"
    assert text(Parameter.make("a", (1, 1), value=third), metadata=False) == " 0.33333333333333331 \n"


def test_input_operation_and_precomputed_node(weights: Parameter) -> None:
    features = Input.make("features", (28, 14))
    plus = Node("z", Op("Plus", (2, 2), same_shape), [features, weights], shape=(2,), framed=True)
    mean = Node("m", Op("Mean", (1, 1), same_shape, role="precompute"), [features], shape=(2,), framed=False)
    mean.value = np.array([1.0, 2.0])
    assert text(features, plus, mean) == (
        " \nfeatures=InputValue [ 14 x 28 ] \nz=Plus ( features , W )"
        f" \nm=Mean ( features ) [2]   HasComputed=true \n 1 \n 2 \n {RULE}"
    )


def test_a_file_has_the_same_text(weights: Parameter, tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    write_dump([weights], path)
    assert path.read_text(encoding="utf-8") == text(weights)
    write_dump([weights], path, metadata=False)
    assert path.read_text(encoding="utf-8") == text(weights, metadata=False)
    write_dump([weights], path, values=False)
    assert path.read_text(encoding="utf-8") == text(weights, values=False)
