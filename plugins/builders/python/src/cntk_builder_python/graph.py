"""Graph and Term: write a network as Python expressions.

A :class:`Term` is a handle of a node; operators make new nodes. Shapes are in NumPy's order, without the frame axis.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cntk_core.api import (
    BuildError,
    CntkError,
    Initializer,
    InitializerSettings,
    Input,
    Location,
    Network,
    Node,
    Op,
    Parameter,
    core_ops,
    did_you_mean,
    raise_problems,
)
from cntk_core.api.builders import FixedValue, Placeholder, cntk_initializer, initialize_parameters

MakeInitializer = Callable[[str, InitializerSettings], Initializer]

_PACKAGE = str(Path(__file__).resolve().parent)


def caller() -> Location:
    """The innermost place outside this package: the line of the user's file that asked for a node."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


class Term:
    """A node being used in an expression: ``x @ W + b``, ``sigmoid(x) * y``, ``1 - x``."""

    __array_ufunc__ = None  # so that a NumPy operand lets us answer

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self._node = node
        self.source: Term | None = None

    @property
    def node(self) -> Node:
        """The node; of a placeholder that was replaced, what has taken its place."""
        while isinstance(self._node, Placeholder) and self._node.replacement is not None:
            self._node = self._node.replacement
        return self._node

    def __repr__(self) -> str:
        return f"<{self.node.describe()}>"

    def named(self, name: str) -> Term:
        """Give the node another name and return this term."""
        self.graph.network.rename(self.node, name)
        return self

    def __add__(self, other: Operand) -> Term:
        return self.graph.apply("Plus", self, other)

    def __radd__(self, other: Operand) -> Term:
        return self.graph.apply("Plus", other, self)

    def __sub__(self, other: Operand) -> Term:
        return self.graph.apply("Minus", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return self.graph.apply("Minus", other, self)

    def __mul__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return self.graph.apply("ElementTimes", self, self.graph.apply("Reciprocal", other))

    def __neg__(self) -> Term:
        return self.graph.apply("Negate", self)

    def __matmul__(self, other: Operand) -> Term:
        """Return ``x @ W``: ``(in,) @ (in, out) -> (out,)``, CNTK's ``Times(W, x)``."""
        return self.graph.apply("Times", other, self)

    def __getitem__(self, part: slice) -> Term:
        """Return a range of the last axis, which is CNTK's first one: ``x[0:10]``, ``x[-3:]``.

        Raises:
            BuildError: the range has a step, is empty, or is no range.
        """
        if not isinstance(part, slice) or part.step not in (None, 1) or part.stop == 0:
            raise BuildError(
                "a part of a term is a range without a step, such as x[0:10]",
                where=caller(),
                hint="For one element write x[3:4].",
            )
        return self.graph.apply("Slice", self, begin=part.start or 0, end=part.stop or 0)

    def __iter__(self) -> NoReturn:
        """Raise TypeError: a term knows its length only when the network is complete."""
        raise TypeError("a term cannot be iterated over; take parts of it, such as x[0:10]")


class Feedback(Term):
    """What a value was some steps ago (or will be), before the value itself is there: how loops are written.

    Made by :meth:`Graph.feedback`. Use it like any term, then say once with :meth:`resolve_to` what it is a delay of.
    """

    def resolve_to(self, term: Term) -> Term:
        """Close the loop, and return the term.

        Raises:
            BuildError: it is closed already.
        """
        delay = self.node
        if delay in self.graph.open:
            self.graph.open.remove(delay)
            delay.inputs = [term.node, *delay.inputs]
            self.graph.linked(delay, {0: term}, new=False)
            return term
        raise BuildError(
            f"the loop through '{delay.name}' is closed already: it is the delay of '{delay.inputs[0].name}'",
            where=caller(),
        )


Operand = Term | float | np.ndarray
Init = str | float | np.ndarray
"""How a parameter starts: a word of CNTK, the value of all elements, or the values."""


class Recording:
    """What is made while a function is called, and where it reads the terms that it is given.

    Attributes:
        nodes: what is made, but for parameters.
        terms: what the function is given, and the names of its parameters.
        places: for each of them, nodes and the indices of their inputs.
    """

    def __init__(self) -> None:
        self.nodes: dict[Node, None] = {}
        self.terms: dict[Term, str] = {}
        self.places: dict[str, list[tuple[Node, int]]] = {}

    def argument(self, name: str, term: Term) -> Term:
        """Return a term of the same node to be given to the function."""
        marked = copy(term)
        marked.source = term
        self.terms[marked] = name
        self.places[name] = []
        return marked

    def add(self, node: Node, inputs: Mapping[int, Term]) -> None:
        """Take note of a node and of terms that are inputs of it, by index."""
        self.nodes[node] = None
        for index, term in inputs.items():
            one: Term | None = term
            while one is not None:
                if one in self.terms:
                    self.places[self.terms[one]].append((node, index))
                one = one.source


def _filled(wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array that is to be a parameter of a shape with dimensions 0."""
    if len(wanted) != len(given) or any(dim not in (0, size) for dim, size in zip(wanted, given, strict=True)):
        raise BuildError(f"first values of shape {given} do not fit a parameter {wanted}", where=caller())
    return given


class Graph:
    """A network in the making.

    Args:
        dtype: float32 or float64.
        find_op: look up an operation by (language, name); None means the core's own table.
        seed: base seed of parameter initialisation.
        make_initializer: ``(word, settings) -> Initializer``; by default CNTK's own words alone.
        network: goes on with this network, such as that of a trained model, in its own precision.
    """

    def __init__(
        self,
        dtype: Any = np.float32,
        *,
        find_op: Any = None,
        seed: int = 0,
        make_initializer: MakeInitializer = cntk_initializer,
        network: Network | None = None,
    ) -> None:
        self.network = Network(dtype) if network is None else network
        self.seed = seed
        self.open: list[Node] = []
        self._recordings: list[Recording] = []
        self._make_initializer = make_initializer
        self._find_op = find_op or core_ops().find
        self._counts: dict[str, int] = {}
        self._stems: set[str] = set()

    def __getitem__(self, name: str) -> Term:
        """Return the node of a name as a term.

        Raises:
            NetworkError: there is none.
        """
        return Term(self, self.network[name])

    def unique(self, stem: str) -> str:
        """Return a name that is not used yet: ``stem``, ``stem1``, ``stem2``, ..."""
        name = stem
        while name in self.network:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}{self._counts[stem]}"
        return name

    def unique_layer(self, stem: str) -> str:
        """Return a stem that no layer has yet and no node begins with: ``stem``, ``stem2``, ``stem3``, ..."""
        number, name = 1, stem
        while name.lower() in self._stems or any(
            node.name.lower().startswith(f"{name}.".lower()) for node in self.network
        ):
            number += 1
            name = f"{stem}{number}"
        self._stems.add(name.lower())
        return name

    def input(
        self,
        name: str,
        shape: int | Sequence[int],
        *,
        sparse: bool = False,
        role: str = "feature",
        axis: str | None = "",
        needs_gradient: bool = False,
    ) -> Term:
        """Add an input stream.

        Args:
            name: of the reader's stream.
            shape: of a sample; ``FREE`` is a dimension whose size each minibatch brings.
            sparse: samples name only their elements that are not zero (one-hot words).
            role: ``feature`` or ``label``.
            axis: name of the dynamic axis, for sequences of other lengths than those of the other inputs; ``BATCH`` for
                one value for each sample, without sequences; None for one value for the whole minibatch.
            needs_gradient: gradients are wanted by it where nobody says by what.

        Raises:
            NetworkError: a dimension is 0; a sparse input has no dynamic axis, or a free dimension.
        """
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        made = Input.make(
            name,
            dims,
            sparse=sparse,
            where=caller(),
            axis=axis or "",
            framed=axis is not None,
            needs_gradient=needs_gradient,
        )
        node = self.network.add(made)
        self.network.mark(node, role)
        return Term(self, node)

    def label(self, name: str, shape: int | Sequence[int], *, sparse: bool = False, axis: str | None = "") -> Term:
        """Add a label stream."""
        return self.input(name, shape, sparse=sparse, role="label", axis=axis)

    def parameter(
        self,
        shape: int | Sequence[int],
        *,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        name: str = "W",
        learning_rate_multiplier: float = 1.0,
        filter_rank: int = 0,
        output_rank: int = 1,
    ) -> Term:
        """Add a learned tensor.

        Args:
            shape: a dimension 0 is inferred.
            init: how it starts: CNTK's word (``gaussian``, ...), the value of all elements, or an array.
            scale: factor on random values.
            seed: of random values; by default the tensor's number among the random ones of the network.
            name: made unique.
            learning_rate_multiplier: 0 keeps the first values.
            filter_rank: how many of the last axes are a filter, for the width of random values and for ``bilinear``.
            output_rank: how many axes before these are outputs; negative: how many of the first axes are.

        Raises:
            BuildError: there is no such word, or the array has another shape.
        """
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        first, value = None, None
        if isinstance(init, str):
            settings = InitializerSettings(
                scale=scale,
                seed=seed,
                where=caller(),
                kernel=(dims[-1], dims[-2]) if filter_rank == 2 else None,
                filter_rank=filter_rank,
                output_rank=output_rank,
            )
            first = self._make_initializer(init, settings)
        elif isinstance(init, np.ndarray):
            value = np.asarray(init, self.network.dtype)
            dims = _filled(dims, value.shape)
        else:
            first = FixedValue(float(init))
        node = Parameter.make(
            self.unique(name),
            dims,
            first,
            value=value,
            learning_rate_multiplier=learning_rate_multiplier,
            where=caller(),
        )
        return Term(self, self.network.add(node))

    def constant(self, value: float | np.ndarray, *, name: str = "constant") -> Term:
        """Add a tensor that is not learned."""
        array = np.atleast_1d(np.asarray(value, self.network.dtype))
        node = Parameter.make(self.unique(name), array.shape, value=array, learning_rate_multiplier=0.0, where=caller())
        self.linked(self.network.add(node), {})
        return Term(self, node)

    def apply(self, operation: str | Op, *operands: Operand, name: str | None = None, **attributes: Any) -> Term:
        """Add the node of an operation: an op, or CNTK's name of one; ``attributes`` are those of the operation.

        Raises:
            BuildError: there is no such operation, or it has no such attribute.
        """
        op = operation if isinstance(operation, Op) else self._op(operation)
        fields = [field.name for field in getattr(op.attributes, "__attrs_attrs__", ())]
        for key in attributes:
            if key not in fields:
                raise BuildError(
                    f"{op.name} has no attribute '{key}'{did_you_mean(key, fields)}",
                    where=caller(),
                    hint=f"Attributes: {', '.join(fields) or 'none'}",
                )
        return self.place(op, operands, op.attributes(**attributes), name)

    def place(self, op: Op, operands: Sequence[Operand], attributes: Any, name: str | None = None) -> Term:
        """Add the node of an op with its attributes."""
        inputs = [self._operand(operand) for operand in operands]
        node = Node(name or self.unique(op.name), op, [term.node for term in inputs], attributes, where=caller())
        self.linked(self.network.add(node), dict(enumerate(inputs)))
        return Term(self, node)

    def linked(self, node: Node, inputs: Mapping[int, Term], *, new: bool = True) -> None:
        """Take note of terms that are inputs of a node, by index, for the blocks that are being made."""
        for recording in self._recordings:
            if new or node in recording.nodes:
                recording.add(node, inputs)

    @contextmanager
    def recorded(self, recording: Recording) -> Iterator[None]:
        """Record what is made."""
        self._recordings.append(recording)
        try:
            yield
        finally:
            self._recordings.remove(recording)

    def _op(self, operation: str) -> Op:
        op: Op | None = self._find_op("", operation)
        if op is None:
            hint = "An op of the program's own is given itself: graph.apply(my_op, x)."
            raise BuildError(f"there is no operation '{operation}'", where=caller(), hint=hint)
        return op

    def _operand(self, operand: Operand) -> Term:
        return operand if isinstance(operand, Term) else self.constant(operand)

    def feedback(self, time_step: int = 1, *, initial_state: Operand = 0.0, name: str | None = None) -> Feedback:
        """Begin a loop: return what a value that is still to come was ``time_step`` steps ago.

        Args:
            time_step: how many steps back; negative looks ahead.
            initial_state: what stands before the first step (after the last): a number, an array, or a term without
                dynamic axis or with one frame for each sequence.
            name: of the delay.

        Raises:
            BuildError: the time step is 0.
        """
        if not time_step:
            raise BuildError("a loop needs a time step other than 0", where=caller())
        op = self._op("PastValue" if time_step > 0 else "FutureValue")
        number = float(initial_state) if isinstance(initial_state, int | float) else 0.0
        inputs = [] if isinstance(initial_state, int | float) else [self._operand(initial_state)]
        node = Node(
            name=self.unique(name or op.name),
            op=op,
            inputs=[term.node for term in inputs],
            attributes=op.attributes(time_step=abs(time_step), default_hidden_activation=number),
            where=caller(),
        )
        self.linked(self.network.add(node), dict(enumerate(inputs, 1)))  # the first input comes with resolve_to
        self.open.append(node)
        return Feedback(self, node)

    def placeholder(self, name: str, shape: int | Sequence[int] | None = None, *, axis: str | None = "") -> Term:
        """Return a term for something that is not known yet; see :meth:`replace_placeholders`.

        Args:
            name: of the placeholder.
            shape: of a sample, if that is known.
            axis: name of the dynamic axis; None if it will have none.
        """
        dims = (shape,) if isinstance(shape, int) else shape if shape is None else tuple(shape)
        return Term(self, self.network.add(Placeholder.make(name, dims, axis=axis, where=caller())))

    def replace_placeholders(self, substitutions: Mapping[Term, Term]) -> None:
        """Put terms in the place of placeholders, all at once. What was written with a placeholder then means the term.

        A term that depends on the placeholder whose place it takes closes a loop, which has to go through a delay.

        Raises:
            NetworkError: something is no placeholder, or of another graph; placeholders stand for each other.
            ShapeError: a term has another shape than was said.
        """
        try:
            self.network.replace_placeholders({old.node: new.node for old, new in substitutions.items()})  # type: ignore[misc]
        except CntkError as error:
            error.where = error.where or caller()
            raise

    def criterion(self, term: Term, name: str | None = None) -> Term:
        """Mark what is minimised, and name it."""
        return self._mark(term, "criterion", name)

    def evaluation(self, term: Term, name: str | None = None) -> Term:
        """Mark what is reported beside the criterion, and name it."""
        return self._mark(term, "evaluation", name)

    def output(self, term: Term, name: str | None = None) -> Term:
        """Mark what the write action writes, and name it."""
        return self._mark(term, "output", name)

    def _mark(self, term: Term, role: str, name: str | None) -> Term:
        self.network.mark(term.node, role)
        return term.named(name) if name else term

    def infer(self) -> None:
        """Infer all shapes.

        Raises:
            Problems, ShapeError: everything that does not fit.
            BuildError: a loop is not closed.
        """
        raise_problems(
            [
                BuildError(
                    f"the loop through '{delay.name}' is not closed",
                    where=delay.where,
                    hint="Say with resolve_to(term) what it is a delay of.",
                )
                for delay in self.open
            ]
        )
        self.network.infer()

    def finish(self) -> Network:
        """Infer all shapes, give every parameter its first value, and return the network.

        Raises:
            Problems, ShapeError: everything that does not fit.
            BuildError: a loop is not closed.
        """
        self.infer()
        initialize_parameters(self.network, self.seed)
        return self.network
