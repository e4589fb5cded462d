"""A layer of LSTM cells with peepholes.

The equations are those of Gers, Schraudolph and Schmidhuber, "Learning precise timing with LSTM recurrent networks"
(2002); the non-linearity of the gates is that of the first layer in ``layerTypes``.
"""

from __future__ import annotations

import attrs

from cntk_builder_simple.layers import activated, dropped
from cntk_builder_simple.maker import Maker, close
from cntk_core.api import Node

_PARTS = ("O", "I", "F", "C")
"""Output gate, input gate, forget gate, cell: the order in which the original makes the matrices of the input."""


@attrs.frozen
class _Weights:
    """Parameters of a layer by part.

    Attributes:
        input: matrices of the input.
        bias: biases.
        back: matrices of the output one frame before.
        peep: diagonals of the cell's state; the cell itself has none.
    """

    input: dict[str, Node]
    bias: dict[str, Node]
    back: dict[str, Node]
    peep: dict[str, Node]


def lstm_layer(maker: Maker, layer: int, value: Node, width: int, size: int) -> Node:
    """Return the output of ``size`` cells, behind a ``Dropout`` if there is to be one.

    Args:
        maker: what makes the nodes.
        layer: number in the names of the parameters.
        value: input of ``width`` rows.
        width: rows of the input.
        size: number of cells.
    """
    weights = _weights(maker, layer, width, size)
    # The original makes one delay for each use.
    past_output = {part: maker.delay(size, key="rnnType") for part in ("I", "F", "O", "C")}
    past_state = {part: maker.delay(size, key="rnnType") for part in ("I", "F", "C")}

    chosen = maker.chosen
    gate = None if chosen.const_input_gate_value else _gate(maker, weights, "I", value, past_output, past_state["I"])
    news = _news(maker, weights, value, past_output["C"])
    if gate is not None:
        news = _product(maker, gate, news)
    kept = past_state["C"]
    if not chosen.const_forget_gate_value:
        gate = _gate(maker, weights, "F", value, past_output, past_state["F"])
        kept = _product(maker, gate, kept)
    state = maker.node("Plus", kept, news, key="rnnType")
    if chosen.const_output_gate_value:
        output = maker.node("Tanh", state, key="rnnType")
    else:
        gate = _gate(maker, weights, "O", value, past_output, state)
        output = _product(maker, gate, maker.node("Tanh", state, key="rnnType"))

    for loop in past_output.values():
        close(loop, output)
    for loop in past_state.values():
        close(loop, state)
    return dropped(maker, output)


def _weights(maker: Maker, layer: int, width: int, size: int) -> _Weights:
    chosen = maker.chosen
    first = {
        "O": (chosen.output_gate_init_val, "outputGateInitVal"),
        "C": (0.0, "rnnType"),
        "I": (chosen.input_gate_init_val, "inputGateInitVal"),
        "F": (chosen.forget_gate_init_val, "forgetGateInitVal"),
    }
    inputs = {part: maker.weights(f"WX{part}{layer}", size, width, key="rnnType") for part in _PARTS}
    bias = {
        part: maker.fixed(f"b{part.lower()}{layer}", size, value=value, key=key) for part, (value, key) in first.items()
    }
    back, peep = {}, {}
    for part in ("I", "F", "O"):
        back[part] = maker.weights(f"WH{part}{layer}", size, size, key="rnnType")
        peep[part] = maker.weights(f"WC{part}{layer}", size, 1, key="rnnType")
    back["C"] = maker.weights(f"WHC{layer}", size, size, key="rnnType")
    return _Weights(inputs, bias, back, peep)


def _gate(maker: Maker, weights: _Weights, part: str, value: Node, past_output: dict[str, Node], state: Node) -> Node:
    """Return ``f(WX * value + b + WH * output + WC . state)``."""
    peep = maker.node("DiagTimes", weights.peep[part], state, key="rnnType")
    back = maker.node("Times", weights.back[part], past_output[part], key="rnnType")
    total = maker.node("Times", weights.input[part], value, key="rnnType")
    for term in (weights.bias[part], back, peep):
        total = maker.node("Plus", total, term, key="rnnType")
    return activated(maker, total, 0)


def _news(maker: Maker, weights: _Weights, value: Node, past_output: Node) -> Node:
    """Return ``tanh(WX * value + (WH * output + b))``."""
    back = maker.node("Times", weights.back["C"], past_output, key="rnnType")
    back = maker.node("Plus", back, weights.bias["C"], key="rnnType")
    fed = maker.node("Times", weights.input["C"], value, key="rnnType")
    return maker.node("Tanh", maker.node("Plus", fed, back, key="rnnType"), key="rnnType")


def _product(maker: Maker, gate: Node, value: Node) -> Node:
    return maker.node("ElementTimes", gate, value, key="rnnType")
