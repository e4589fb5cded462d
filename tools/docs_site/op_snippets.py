"""Examples of the operations whose values do not come from inputs of the same samples: leaves, other axes, attention.

Each is run as the site is built; what it prints stands below it.
"""

from __future__ import annotations

import contextlib
import io

import attrs

HEAD = """import numpy as np
from cntk_builder_python import Graph, sequence
from cntk_core.model import Model

graph = Graph()
"""
SHOW = """
model = Model(graph.finish())
found = model.evaluate({data})["out"]
for each in found:
    print(np.round(each, 3))
"""
X = 'x = graph.input("x", 2)\n'
ON_SEQUENCES = '{"x": [np.array([[1, 2], [3, 4], [5, 6]]), np.array([[7, 8]])]}'


OUT = 'graph.output({}, "out")\n'


@attrs.frozen
class Snippet:
    """An example of an operation.

    Attributes:
        inputs: what a drawing shows going into it.
        body: lines between the head and what is shown; empty: there is no example.
        data: what the model is given.
        remark: a sentence below, or in place of the example.
    """

    inputs: tuple[str, ...]
    body: str = ""
    data: str = ON_SEQUENCES
    remark: str = ""

    @property
    def program(self) -> str:
        """The program; empty if there is none."""
        return (HEAD + self.body + SHOW.replace("{data}", self.data)).strip() if self.body else ""

    def printed(self) -> str:
        """Run the program, and return what it prints."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(self.program, "<example>", "exec"), {"__name__": "example"})
        return said.getvalue().rstrip()


def _applied(before: str, call: str, remark: str = "", *, inputs: tuple[str, ...], data: str = ON_SEQUENCES) -> Snippet:
    return Snippet(inputs, before + OUT.format(call), data, remark)


GREATER = 'x = graph.input("x", 2)\nlarge = graph.apply("Greater", x[0:1], 2)\n'
CHOSEN = GREATER + 'chosen = graph.apply("Where", large)\n'
PLACES = CHOSEN + 'places = graph.apply("PackedIndex", x, chosen)\n'

MEMORY = ("memory (3, 2): three steps", "x (2,)")
TWO = 'x = graph.input("x", 2)\nmemory = graph.parameter((3, 2), init=np.array([[1.0, 0], [0, 1], [1, 1]]))\n'
TWO_DATA = '{"x": [np.array([[1, 0], [0, 3]])]}'


SNIPPETS: dict[str, Snippet] = {
    "InputValue": _applied(X, 'graph.apply("Pass", x)', inputs=()),
    "SparseInputValue": _applied(
        'x = graph.input("x", 4, sparse=True)\n',
        'graph.apply("Times", np.arange(8.0).reshape(4, 2), x)',
        "Words are given as whole numbers, which stand for one-hot vectors: here each picks a row of a table.",
        inputs=(),
        data='{"x": [[1, 3], [0]]}',
    ),
    "LearnableParameter": _applied(
        X + "w = graph.parameter((2, 1), init=np.array([[10.0], [1.0]]))\n", "x @ w", inputs=()
    ),
    "DynamicAxis": _applied(
        'x = graph.input("x", 2, axis="source")\n',
        "sequence.last(x)",
        "An input that names an axis has sequences of other lengths than those of the other inputs.",
        inputs=(),
    ),
    "EnvironmentInput": _applied(
        X + 'training = graph.apply("EnvironmentInput", property_name="isTraining")\n',
        "x * training",
        "While it is evaluated, the number is 0.",
        inputs=(),
    ),
    "Where": _applied(
        CHOSEN,
        "chosen",
        "One sequence of places for each sequence: those where the condition holds, counted from 0.",
        inputs=("condition (1,)",),
    ),
    "PackedIndex": _applied(
        PLACES,
        "places",
        "Rows of the packed minibatch, in which the sequences lie beside each other.",
        inputs=("x (2,)", "places (1,)"),
    ),
    "GatherPacked": _applied(
        PLACES,
        'graph.apply("GatherPacked", places, x)',
        "It is what `sequence.gather(x, condition)` makes.",
        inputs=("rows (1,)", "x (2,)"),
    ),
    "ScatterPacked": _applied(
        PLACES + 'some = graph.apply("GatherPacked", places, x)\n',
        'graph.apply("ScatterPacked", x, places, some)',
        "The frames that were chosen are back in their places; the others are 0.",
        inputs=("x (2,)", "rows (1,)", "some (2,)"),
    ),
    "ToSequence": _applied(
        'x = graph.input("x", (3, 2), axis="batch")\n',
        'graph.apply("ToSequence", x)',
        "The first axis in NumPy's order is the last in CNTK's: it becomes the steps.",
        inputs=("x (3, 2)",),
        data='{"x": np.arange(12.0).reshape(2, 3, 2)}',
    ),
    "ToSequenceLike": _applied(
        'x = graph.input("x", (3, 2), axis="batch")\nlike = graph.input("like", 1)\n',
        'graph.apply("ToSequenceLike", x, like)',
        "The steps are as many as those of the second input.",
        inputs=("x (3, 2)", "like (1,), a sequence"),
        data='{"x": np.arange(12.0).reshape(2, 3, 2), "like": [np.ones((2, 1)), np.ones((3, 1))]}',
    ),
    "UnpackSequence": _applied(
        X,
        'graph.apply("UnpackSequence", x)',
        "Shorter sequences are filled with zeros.",
        inputs=("x (2,), a sequence",),
    ),
    "ToBatch": _applied(
        "table = graph.parameter((3, 2), init=np.array([[1, 0], [0, 1], [1, 1]]))\n",
        'graph.apply("ToBatch", table)',
        inputs=("table (3, 2)",),
        data="{}",
    ),
    "UnpackBatch": _applied(
        X, 'graph.apply("UnpackBatch", x)', inputs=("x (2,), samples",), data='{"x": np.array([[1, 2], [3, 4]])}'
    ),
    "AttentionWeights": _applied(
        TWO,
        'graph.apply("AttentionWeights", memory, x)',
        "For each frame one number for each step of the memory; they sum to 1.",
        inputs=MEMORY,
        data=TWO_DATA,
    ),
    "AdditiveAttentionWeights": _applied(
        TWO + "v = graph.parameter((2,), init=np.array([1.0, 2.0]))\n",
        'graph.apply("AdditiveAttentionWeights", memory, x, v)',
        inputs=(*MEMORY, "v (2,)"),
        data=TWO_DATA,
    ),
    "AttentionSum": _applied(
        TWO + 'weights = graph.apply("AttentionWeights", memory, x)\n',
        'graph.apply("AttentionSum", memory, weights)',
        inputs=("memory (3, 2): three steps", "weights"),
        data=TWO_DATA,
    ),
    "AttentionProducts": _applied(TWO, 'graph.apply("AttentionProducts", memory, x)', inputs=MEMORY, data=TWO_DATA),
    "AttentionMemory": _applied(
        TWO + 'weights = graph.apply("AttentionProducts", memory, x)\n',
        'graph.apply("AttentionMemory", memory, weights, x)',
        "It is how gradients of attention come to the memory.",
        inputs=("memory (3, 2): three steps", "weights", "x (2,)"),
        data=TWO_DATA,
    ),
    "Mean": Snippet(
        ("x",),
        remark="It is computed in one pass over the data before a training begins, not from a minibatch: "
        "[training](../training.md).",
    ),
    "InvStdDev": Snippet(
        ("x",),
        remark="It is computed in one pass over the data before a training begins, not from a minibatch: "
        "[training](../training.md).",
    ),
    "SequenceWithSoftmax": Snippet(
        ("labels", "log likelihoods", "scaled likelihoods"),
        remark="It needs lattices: [sequence training](../sequence-training.md) has a whole example.",
    ),
    "LatticeFreeMMI": Snippet(
        ("labels", "log likelihoods"),
        remark="It needs a graph of phones: [sequence training](../sequence-training.md) has a whole example.",
    ),
    "CustomProxyOp": Snippet((), remark="Models with it can be read, looked at and edited, but not run."),
}
