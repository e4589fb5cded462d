"""Weights of samples: a criterion of which each sample has a share of its own, and weights that make classes equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    DataError,
    Input,
    Network,
    Node,
    Parameter,
    UnsupportedError,
    UsageError,
    core_ops,
    did_you_mean,
    elements,
)
from cntk_fit.encoding import Encoding
from cntk_fit.rows import Classes, Repeated, Rows
from cntk_fit.taking import WEIGHTS

ClassWeight = Mapping[Any, float] | Literal["balanced"]


@attrs.frozen(eq=False)
class Weighted:
    """A network with weights.

    Attributes:
        network: has the nodes of the one that was given, and those that weigh.
        criterion: the sum over the samples of weight times criterion.
        weight: takes the weights.
    """

    network: Network
    criterion: Node
    weight: Input


def weigh(network: Network, criterion: Node) -> Weighted:
    """Return a network whose criterion is weighted. What was given stays as it is; parameters are the same.

    Raises:
        UnsupportedError: the criterion has no value for each sample.
    """
    wide = Network(network.dtype)
    for node in network:
        wide.add(node)
    wide.roots = {role: list(nodes) for role, nodes in network.roots.items()}
    writer = _Writer(wide)
    single = writer.of_each_sample(criterion)
    wide.infer()
    weight = Input.make(writer.unique(WEIGHTS), (1,), axis=single.axis)
    wide.add(weight)
    weighted = writer.make("ElementTimes", single, weight)
    wide.rename(weighted, writer.unique(f"weighted {criterion.name}"))
    wide.infer()
    return Weighted(wide, weighted, weight)


class _Writer:
    """Writes nodes into a network."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def unique(self, name: str) -> str:
        found, number = name, 1
        while found in self.network:
            number += 1
            found = f"{name}{number}"
        return found

    def make(self, operation: str, *inputs: Node) -> Node:
        op = core_ops().find("", operation)
        assert op is not None, operation
        return self.network.add(Node(self.unique(f"weighted.{operation}"), op, list(inputs), op.attributes()))

    def one(self) -> Node:
        value = np.ones(1, self.network.dtype)
        made = Parameter.make(self.unique("weighted.one"), (1,), value=value, learning_rate_multiplier=0.0)
        return self.network.add(made)

    def of_each_sample(self, node: Node) -> Node:
        """Return the value of a criterion for each sample.

        Raises:
            UnsupportedError: it has none, or nobody knows its formula.
        """
        if node.framed:
            return node if elements(node.known_shape) == 1 else self.make("SumColumnElements", node)
        kind, inputs = node.op.name, node.inputs
        both = len(inputs) == 2 and all(each.framed for each in inputs)
        if both and kind == "CrossEntropyWithSoftmax" and len(inputs[1].known_shape) == 1:
            return self.make("Negate", self.make("TransposeTimes", inputs[0], self.make("LogSoftmax", inputs[1])))
        if both and kind == "CrossEntropy" and len(inputs[1].known_shape) == 1:
            return self.make("Negate", self.make("TransposeTimes", inputs[0], self.make("Log", inputs[1])))
        if both and kind == "SquareError":
            change = self.make("Minus", *inputs)
            return self.make("SumColumnElements", self.make("ElementTimes", change, change))
        if both and kind == "Logistic":
            return self._logistic(*inputs)
        raise UnsupportedError(
            f"samples cannot be weighted: the criterion '{node.name}' ({kind}) has no value for each sample",
            where=node.where,
            hint="Weigh it in the network, with an input of weights; or take a criterion such as "
            "CrossEntropyWithSoftmax, SquareError or Logistic.",
        )

    def _logistic(self, labels: Node, chances: Node) -> Node:
        one = self.one()
        taken = self.make("ElementTimes", labels, self.make("Log", chances))
        rest = self.make("Log", self.make("Minus", one, chances))
        other = self.make("ElementTimes", self.make("Minus", one, labels), rest)
        return self.make("Negate", self.make("SumColumnElements", self.make("Plus", taken, other)))


def with_weights(rows: Rows, weight: Input, inputs: Iterable[Input]) -> Rows:
    """Return rows with weights under the name of their input; of a row that is a sequence, one for each step."""
    values = dict(rows.values)
    given = values.pop(WEIGHTS, None)
    if given is None:
        given = np.ones(rows.count, np.float32)
    lengths = next((each for node in inputs if (each := _lengths(node, weight, values)) is not None), None)
    values[weight.name] = given if lengths is None or isinstance(given, list) else Repeated(given, lengths)
    return attrs.evolve(rows, values=values)


def _lengths(node: Input, weight: Input, values: Mapping[str, Any]) -> NDArray[np.int64] | None:
    """Return the lengths of an input's sequences; None where its rows are samples, or on another axis."""
    value = values.get(node.name)
    value = value.numbers if isinstance(value, Classes) else value
    if node.axis != weight.axis or value is None:
        return None
    if isinstance(value, list):
        return np.array([one.shape[0] for one in value], np.int64)
    many = isinstance(value, np.ndarray) and value.ndim > 1
    steps = many and (value.ndim == 2 + len(node.known_shape) or (node.sparse and value.dtype.kind in "iu"))
    return np.full(len(value), value.shape[1], np.int64) if steps else None


def class_weights(rows: Rows, label: Input, given: ClassWeight, encoding: Encoding) -> Any:
    """Return the weight of each row by its class; of sequences, of each step.

    Args:
        rows: the data.
        label: the input that says the class.
        given: weights by number or name of the class, others have 1; or ``balanced``: n / (classes * n of the class).
        encoding: knows the names of classes.

    Raises:
        DataError: the labels say no class.
        UsageError: there is no such class, or the weight makes no sense.
    """
    found = _numbers(rows.values[label.name], label)
    numbers = np.concatenate(found) if isinstance(found, list) else found
    classes = elements(label.known_shape) if elements(label.known_shape) > 1 else 2
    factors = np.ones(classes, np.float32)
    if isinstance(given, str):
        if given != "balanced":
            raise UsageError(f"class_weight is weights by class, or 'balanced', not {given!r}")
        counts = np.bincount(numbers, minlength=classes)
        factors[counts > 0] = len(numbers) / (np.count_nonzero(counts) * counts[counts > 0])
    else:
        names = encoding.labels.get(label.name.lower()) or list(range(classes))
        for name, factor in given.items():
            if name not in names:
                raise UsageError(
                    f"class_weight: '{label.name}' has no class {name!r}{did_you_mean(str(name), map(str, names))}",
                    hint=f"Classes: {', '.join(map(repr, names[:20]))}",
                )
            if not 0.0 <= factor < float("inf"):
                raise UsageError(f"class_weight of {name!r} is {factor}; it must not be negative")
            factors[names.index(name)] = factor
    return [factors[each] for each in found] if isinstance(found, list) else factors[found]


def _numbers(value: Any, label: Input) -> Any:
    """Return the number of the class of each row; of sequences, a list of those of their steps."""
    if isinstance(value, Classes):
        return value.numbers
    if isinstance(value, list):
        return [_numbers(one, label) for one in value]
    array = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    if array.ndim == 2 and array.shape[1] > 1 and ((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all():
        return array.argmax(axis=1)
    if array.size == len(array) and ((array == 0) | (array == 1)).all():
        return array.reshape(-1).astype(np.int64)
    raise DataError(f"class_weight: the rows of '{label.name}' are no classes", hint="Give sample_weight.")
