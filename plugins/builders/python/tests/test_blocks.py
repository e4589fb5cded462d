"""Placeholders, blocks and copies of parts, as Python expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    GRU,
    LSTM,
    Attention,
    BatchNormalization,
    BiRecurrence,
    Convolution,
    ConvolutionTranspose,
    Dense,
    Embedding,
    Fold,
    Graph,
    LayerNormalization,
    LuongAttention,
    MultiHeadAttention,
    PReLU,
    Recurrence,
    RecurrenceFrom,
    RecurrentLSTMLayer,
    RNNStep,
    Sequential,
    Stabilizer,
    Term,
    block,
    call,
    clone,
    sigmoid,
    squared_error,
    tanh,
)

from cntk_core.api import (
    BuildError,
    CntkError,
    Minibatch,
    NetworkError,
    Node,
    ParameterStore,
    ShapeError,
    StreamData,
    core_ops,
)
from cntk_core.api.builders import collapse, find_block, outline
from cntk_core.api.engines import make_plan, sequence_layout
from cntk_testing import ReferenceEngine, check_gradients
from cntk_testing.inside import load_model, save_model


def value(graph: Graph, term: Term, data: Minibatch) -> Any:
    network = graph.finish()
    program = ReferenceEngine().compile(make_plan(network, [term.node]), ParameterStore(network.parameters, np.float64))
    program.evaluate(data)
    return program.value(term.node.name)


def batch(lengths: Sequence[int] = (3, 1), **widths: int) -> Minibatch:
    layout = sequence_layout(lengths)
    random = np.random.default_rng(5)
    return Minibatch({name: StreamData(random.normal(size=(4, width)), layout) for name, width in widths.items()}, 4)


def of(graph: Graph) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (block.name, block.kind, {name: node.name for name, node in block.operands.items()})
        for block in graph.network.blocks
    ]


def names(nodes: Iterable[Node]) -> set[str]:
    return {node.name for node in nodes}


# -- layers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        (Dense(2, sigmoid), ["Dense"]),
        (Embedding(2), ["Embedding"]),
        (Stabilizer(), ["Stabilizer"]),
        (BatchNormalization(), ["BatchNormalization"]),
        (LayerNormalization(), ["LayerNormalization"]),
        (LayerNormalization(axes=1), ["LayerNormalization"]),
        (PReLU(), ["PReLU"]),
        (Recurrence(RNNStep(2)), ["RNNStep", "Recurrence"]),
        (Recurrence(lambda h, x: tanh(h + x)), ["Recurrence"]),
        (Fold(GRU(2)), ["GRU", "Last", "Fold"]),
        (BiRecurrence(LSTM(2), GRU(2)), ["LSTM", "Recurrence", "GRU", "Recurrence", "BiRecurrence"]),
        (RecurrentLSTMLayer(2), ["LSTM", "Recurrence", "RecurrentLSTMLayer"]),
        (
            Recurrence(LSTM(2, enable_self_stabilization=True)),
            ["Stabilizer", "LSTM", "Recurrence"],
        ),
    ],
)
def test_a_layer_is_a_block(layer: Any, wanted: list[str]) -> None:
    graph = Graph()
    x = graph.input("x", 3)
    graph.output(layer(x))
    network = graph.finish()
    assert [block.kind for block in network.blocks] == wanted
    assert network.blocks[-1].operands == {"x": x.node}
    assert names(collapse(network)) == {"x", *names(network.roots["output"])} | {
        parameter.name for parameter in network.parameters if not parameter.name.startswith("constant")
    }


@pytest.mark.parametrize(
    "layer",
    [
        Convolution((3, 3), 2, sigmoid, pad=True),
        Convolution((3, 3), reduction_rank=1),
        ConvolutionTranspose((3, 3), 2),
        BatchNormalization(1),
    ],
)
def test_a_layer_of_images_is_a_block(layer: Any) -> None:
    graph = Graph()
    graph.output(layer(graph.input("x", (1, 6, 6))))
    assert [node.op.name for node in collapse(graph.finish()) if node.op.role == "block"] == [type(layer).__name__]


def test_blocks_have_the_names_of_their_layers() -> None:
    graph = Graph()
    x = graph.input("x", 3)
    layer = Dense(3)
    layer(Dense(3, name="given")(layer(x)))
    assert of(graph) == [
        ("dense", "Dense", {"x": "x"}),
        ("given", "Dense", {"x": "Plus"}),
        ("dense", "Dense", {"x": "Plus1"}),
    ]


def test_states_are_arguments() -> None:
    graph = Graph()
    h, c, x = (graph.input(name, 2) for name in "hcx")
    RecurrenceFrom(LSTM(2, name="cell"), name="r")(h, c, x)
    assert of(graph) == [
        ("cell", "LSTM", {"dh": "r.h", "dc": "r.c", "x": "x"}),
        ("r", "RecurrenceFrom", {"operands1": "h", "operands2": "c", "operands3": "x"}),
    ]


def test_attention_is_two_blocks() -> None:
    """What does not depend on the decoder's state, and the function of that state."""
    graph = Graph()
    encoded, x = graph.input("encoded", 4, axis="source"), graph.input("x", 3)
    cell, context = LSTM(5), Attention(4, 3)(encoded, x)
    graph.output(Recurrence(lambda h, c, x: cell(h, c, x, context(h)))(x), "h")
    network = graph.finish()
    assert [(block.kind, list(block.operands)) for block in network.blocks] == [
        ("PastValueWindow", ["x"]),
        ("Attention", ["encoded", "decoder"]),
        ("Attention", ["h"]),
        ("LSTM", ["dh", "dc", "x", "aux"]),
        ("Recurrence", ["x"]),
    ]
    assert [node.name for node in collapse(network) if node.op.role == "block"] == ["attention", "h"]


def test_numbers_belong_to_their_block() -> None:
    """They are not shown with it, and not shared when it is called again."""
    graph = Graph()
    x = graph.input("x", 2)
    Stabilizer(name="s")(x)
    again = call("s", x, name="t")
    graph.output(again)
    network = graph.finish()
    assert [node.name for node in collapse(network)] == ["x", "s.param", "s", "t.ElementTimes2"]
    assert names(network.parameters) == {
        "s.param", "constant", "constant1", "constant2", "t.constant", "t.constant1", "t.constant2"
    }  # fmt: skip


def test_a_block_with_numbers_is_called_on_something_wider() -> None:
    graph = Graph()
    x, wide = graph.input("x", 2), graph.input("wide", 5)
    Stabilizer(name="s")(x)
    again = call("s", wide, name="t")
    graph.network.infer()
    assert again.node.shape == (5,)


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        (MultiHeadAttention(4, 2), ["MultiHeadAttention"]),
        (lambda x: LuongAttention(4)(x)(x), ["Unpack", "LuongAttention"]),
        (lambda x: Attention(4)(x, x)(x), ["Unpack", "Attention"]),
    ],
)
def test_attention_to_whole_sequences_is_a_block(layer: Any, wanted: list[str]) -> None:
    graph = Graph()
    graph.output(layer(graph.input("x", 4)))
    assert [node.op.name for node in collapse(graph.finish()) if node.op.role == "block"] == wanted


def test_a_layer_that_makes_nothing_is_no_block() -> None:
    graph = Graph()
    x = graph.input("x", 2)
    assert Recurrence(lambda h, x: x)(x).node is x.node
    assert graph.network.blocks == []


def test_two_operands_that_are_the_same_stay_two() -> None:
    """With attention the cell reads the input twice, at other places."""
    graph = Graph(np.float64)
    x, y = graph.input("x", 2), graph.input("y", 2)
    zero = x * 0.0
    h, _ = LSTM(2, name="cell")(zero, zero, x, x)
    with_y, _ = call("cell", zero, zero, x, y)
    assert with_y.node.name == "cell.ht2"
    data = batch(x=2, y=2)
    assert not np.allclose(value(graph, with_y, data), value(graph, h, data))
    assert [parameter.name for parameter in graph.network.parameters if parameter.learned] == [
        f"cell.{key}" for key in "BWHA"
    ]


# -- own blocks -------------------------------------------------------------------------------------------


def test_a_function_is_a_block() -> None:
    @block("Highway", name="hw")
    def highway(x: Term, gate: Term, scale: float = 2.0) -> Term:
        """Mix."""
        return sigmoid(gate) * x * scale

    graph = Graph()
    x = graph.input("x", 2)
    highway(x, gate=highway(gate=x, x=x, scale=3.0))
    assert of(graph) == [
        ("hw", "Highway", {"x": "x", "gate": "x"}),
        ("hw", "Highway", {"x": "x", "gate": "ElementTimes1"}),
    ]
    assert (highway.__name__, highway.__doc__) == ("highway", "Mix.")


def test_blocks_in_blocks() -> None:
    @block("Inner")
    def inner(a: Term) -> Term:
        return tanh(a)

    @block("Outer")
    def outer(x: Term, y: Term) -> tuple[Term, Term]:
        return inner(x) + inner(y), x

    graph = Graph()
    x = graph.input("x", 2)
    _, same = outer(x, x)
    assert same.node.op.name == "Pass"
    assert of(graph)[-1] == ("outer", "Outer", {"x": "x", "y": "x"})
    assert [name for name, _ in find_block(graph.network, "outer").arguments.items()] == ["x", "y"]
    a, b = call("outer", graph.input("p", 2), graph.input("q", 2))
    graph.network.infer()
    assert list(outline(graph.network, 1))[-4:] == [
        "  outer.inner = Inner (p) : [2 x *]",
        "  outer.inner2 = Inner (q) : [2 x *]",
        "  outer.Plus = Plus (outer.inner, outer.inner2) : [2 x *]",
        "  outer.Pass = Pass (p) : [2 x *]",
    ]
    assert [node.name for node in a.node.inputs[0].inputs] == ["p"]
    assert [node.name for node in a.node.inputs[1].inputs] == ["q"]
    assert [node.name for node in b.node.inputs] == ["p"]


def test_what_is_named_or_marked_inside_is_so_outside() -> None:
    @block("Naming")
    def naming(x: Term) -> Term:
        x.graph.output(x.named("renamed"))
        return tanh(x).named("result")

    graph = Graph()
    x = graph.input("x", 2)
    naming(x)
    assert x.node.name == "renamed"
    assert graph.network.roots["output"] == [x.node]
    assert of(graph) == [("naming", "Naming", {"x": "renamed"})]


def test_a_loop_that_is_closed_inside() -> None:
    @block("Loop")
    def loop(before: Any, x: Term) -> Term:
        return before.resolve_to(tanh(before + x))

    graph = Graph()
    x = graph.input("x", 2)
    loop(graph.feedback(name="before"), x)
    network = graph.finish()
    assert network["before"].inputs == [network["Tanh"]]
    assert of(graph) == [("loop", "Loop", {"before": "before", "x": "x"})]


def test_a_loop_whose_start_is_an_argument() -> None:
    @block("Loop")
    def loop(start: Term, x: Term) -> Term:
        before = x.graph.feedback(initial_state=start)
        return before.resolve_to(before + x)

    graph = Graph(np.float64)
    x, y = graph.input("x", 2), graph.input("y", 2)
    total = Fold(lambda h, x: h + x)
    loop(total(x), x)
    other = call("loop", total(y), x)
    data = batch([4], x=2, y=2)
    xs, ys = (np.asarray(data.streams[name].data) for name in "xy")
    np.testing.assert_allclose(value(graph, other, data), ys.sum(0) + xs.cumsum(0))


def test_a_function_that_fails_leaves_nothing_behind() -> None:
    @block("Failing")
    def failing(x: Term) -> Term:
        tanh(x)
        raise ValueError("no")

    graph = Graph()
    x = graph.input("x", 2)
    with pytest.raises(ValueError, match="no"):
        failing(x)
    Dense(2)(x)
    assert of(graph) == [("dense", "Dense", {"x": "x"})]


def test_what_is_no_block() -> None:
    graph = Graph()
    x = graph.input("x", 2)
    for function, operands, message in (
        (lambda x, y: tanh(x), (x, x), "the block 'odd' does not read its argument 'y'\n    Leave the argument out."),
        (lambda x: 3, (x,), "the block 'odd' returned no term"),
        (lambda number: number, (3,), "the block 'Odd' was given no term"),
    ):
        with pytest.raises(BuildError) as caught:
            block("Odd")(function)(*operands)
        assert str(caught.value).partition(": ")[2] == message
        assert str(caught.value).startswith(__file__)
    with pytest.raises(TypeError, match="1 required positional argument: 'x'"):
        Dense(2)()  # as Python says it
    with pytest.raises(TypeError, match="1 required positional argument: 'x'"):
        block("Odd")(tanh)()


# -- used again -------------------------------------------------------------------------------------------


def test_a_layer_of_a_loaded_network_is_called_again(tmp_path: Any) -> None:
    graph = Graph(np.float64)
    graph.output(Sequential(Dense(3, tanh, name="hidden"), Dense(2, name="z"))(graph.input("x", 4)))
    save_model(graph.finish(), tmp_path / "net.dnn")
    again = Graph(network=load_model(tmp_path / "net.dnn", core_ops().find))
    y = again.input("y", 4)
    hidden = call("hidden", y, name="of y")
    np.testing.assert_array_equal(
        value(again, hidden, batch(y=4)), value(again, again["Tanh"], Minibatch({"x": batch(y=4).streams["y"]}, 4))
    )
    assert [block.name for block in again.network.blocks] == ["hidden", "z", "of y"]
    assert len(again.network.parameters) == 4


def test_features_of_a_trained_network_are_frozen() -> None:
    trained = Graph()
    Sequential(Dense(3, tanh, name="hidden"), Dense(2, name="z"))(trained.input("x", 4))
    source = trained.finish()
    graph = Graph()
    x = graph.input("images", 4)
    features = clone("Tanh", {"x": x}, source=source, parameters="constant", name="base")
    graph.output(Dense(5, name="new")(features), "z")
    network = graph.finish()
    assert {parameter.name: parameter.learned for parameter in network.parameters} == {
        "base.hidden.W": False,
        "base.hidden.b": False,
        "new.W": True,
        "new.b": True,
    }
    assert of(graph) == [("base.hidden", "Dense", {"x": "images"}), ("new", "Dense", {"x": "base.Tanh"})]
    assert source["hidden.W"].value is not network["base.hidden.W"].value


def test_a_part_is_copied_beside_itself() -> None:
    graph = Graph()
    x, y = graph.input("x", 2), graph.input("y", 2)
    z = tanh(Dense(3, name="d")(x))
    other = clone(z, {x: y}, parameters="shared")
    assert other.node.name == "Tanh2"
    assert of(graph) == [("d", "Dense", {"x": "x"}), ("d", "Dense", {"x": "y"})]
    assert [parameter.name for parameter in graph.network.parameters] == ["d.W", "d.b"]


def test_what_cannot_be_used_again() -> None:
    graph = Graph()
    x = graph.input("x", 2)
    Dense(2)(x)
    for attempt, message in (
        (lambda: call("dense"), "a block is called with terms"),
        (lambda: call("dence", x), "the network has no block 'dence'; did you mean 'dense'?"),
        (lambda: call("dense", x, x), "the block 'dense' has the arguments (x), not 2"),
        (lambda: clone("z", {}), "a copy needs a term in the place of something that it reads"),
        (lambda: clone("z", {"x": x}), "the network has no node 'z'"),
        (
            lambda: clone("x", {"Plus": x}),
            "no output of the cloned function depends on its input 'Plus'\n"
            "    List only nodes that the outputs are computed from.",
        ),
    ):
        with pytest.raises(CntkError) as caught:
            attempt()
        assert str(caught.value).partition(": ")[2] == message
        assert caught.value.where is not None
        assert caught.value.where.file == __file__


# -- placeholders -----------------------------------------------------------------------------------------


def recurrent(graph: Graph, late: bool) -> Term:
    x = graph.input("x", 3)
    w, r = graph.parameter((3, 2), name="W"), graph.parameter((2, 2), name="R")
    if late:
        h = graph.placeholder("h")
        before = graph.feedback()
        before.resolve_to(h)
        result = tanh(x @ w + before @ r)
        graph.replace_placeholders({h: result})
    else:
        before = graph.feedback()
        result = before.resolve_to(tanh(x @ w + before @ r))
    return result


def test_a_loop_closed_late_is_the_same() -> None:
    late, early = Graph(np.float64), Graph(np.float64)
    terms = recurrent(late, late=True), recurrent(early, late=False)
    data = batch(x=3)
    np.testing.assert_array_equal(*(value(term.graph, term, data) for term in terms))
    assert [node.describe() for node in late.network] == [node.describe() for node in early.network]


def test_gradients_through_a_loop_closed_late() -> None:
    graph = Graph(np.float64)
    h = recurrent(graph, late=True)
    criterion = graph.criterion(squared_error(h, graph.label("y", 2)))
    check_gradients(graph.finish(), criterion.node, batch(x=3, y=2))


def test_a_placeholder_is_what_has_taken_its_place() -> None:
    graph = Graph()
    x = graph.input("x", 2)
    p, q = graph.placeholder("p"), graph.placeholder("q", (2,), axis=None)
    y = tanh(p) + q
    constant = graph.constant(np.ones(2))
    graph.replace_placeholders({p: x, q: constant})
    assert p.node is x.node
    assert (p + q).node.inputs == [x.node, constant.node]
    graph.output(y)
    assert graph.finish().placeholders == []


def test_placeholders_are_arguments_of_blocks() -> None:
    graph = Graph()
    p = graph.placeholder("p", 2)
    z = Dense(3, name="d")(p)
    graph.network.infer(partial=True)
    assert z.node.shape == (3,)
    x = graph.input("x", 2)
    graph.replace_placeholders({p: x})
    assert of(graph) == [("d", "Dense", {"x": "x"})]


def test_placeholders_that_are_left_or_wrong() -> None:
    graph = Graph()
    x, p, q = graph.input("x", 2), graph.placeholder("p"), graph.placeholder("q", 3)
    graph.output(tanh(p) + tanh(q))
    with pytest.raises(CntkError) as caught:
        graph.finish()
    assert str(caught.value).count("still stands for something that is not known") == 2
    assert str(caught.value).count(__file__) == 2
    with pytest.raises(NetworkError) as wrong:
        graph.replace_placeholders({x: p})
    assert str(wrong.value).partition(": ")[2] == "InputValue 'x' is no placeholder"
    with pytest.raises(ShapeError) as shape:
        graph.replace_placeholders({q: x})
    assert str(shape.value).partition(": ")[2] == "the placeholder 'q' was said to be [3], but 'x' is [2]"
    assert shape.value.where is not None
    assert shape.value.where.file == __file__
