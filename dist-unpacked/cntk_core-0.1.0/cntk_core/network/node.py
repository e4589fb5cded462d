"""Nodes: an operation, its inputs by order, its shape once it is known."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import Location, NetworkError
from cntk_core.network.initializers import Initializer
from cntk_core.ops.families.leaves import INPUT, PARAMETER, PLACEHOLDER, SPARSE_INPUT
from cntk_core.ops.language.op import NoAttributes, Op
from cntk_core.ops.language.shapes import Free, Shape, placed, show

ROLES = ("feature", "label", "criterion", "evaluation", "output")
"""Groups of nodes that a recipe names, in the order of CNTK's model files."""

BATCH = "#"
"""The dynamic axis of values that have no sequences: one for each sample of the minibatch, in the reader's order."""


@attrs.define(eq=False)
class Node:
    """One node of a network.

    Attributes:
        name: unique in the network; case does not count.
        op: what it computes.
        inputs: in the order of the op. A delay's inputs may be set after the node is made (loops).
        attributes: instance of ``op.attributes``.
        where: the place in the recipe that made it.
        shape: sample shape in memory order, None before inference.
        framed: whether the value has a dynamic axis, None before inference.
        axis: name of the dynamic axis, "" for the default one, :data:`BATCH` where there are no sequences.
        value: the constant value of a precomputed node; parameters keep theirs here too.
    """

    name: str
    op: Op
    inputs: list[Node] = attrs.field(factory=list)
    attributes: Any = attrs.field(factory=NoAttributes)
    where: Location | None = None
    shape: Shape | None = None
    framed: bool | None = None
    axis: str = ""
    _value: NDArray[Any] | None = None

    @property
    def value(self) -> NDArray[Any] | None:
        """The value, None before it was made."""
        return self._value

    @value.setter
    def value(self, value: NDArray[Any] | None) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.name}>"

    def describe(self) -> str:
        """``name = Operation(a, b) : [5 x *]`` as people and logs see it."""
        shape = f" : {show(self.shape, framed=bool(self.framed))}" if self.shape is not None else ""
        return f"{self.name} = {self.op.name} ({', '.join(node.name for node in self.inputs)}){shape}"

    def describe_axes(self) -> str:
        """``'z' has the axes [batch, sequence 'words']`` as messages say it."""
        if not self.framed:
            return f"'{self.name}' has no dynamic axis"
        sequence = "" if self.axis == BATCH else f", sequence '{self.axis}'" if self.axis else ", sequence"
        return f"'{self.name}' has the axes [batch{sequence}]"

    @property
    def known_shape(self) -> Shape:
        """The shape after inference."""
        assert self.shape is not None, f"{self.name} has no shape yet"
        return self.shape


@attrs.define(eq=False, repr=False)
class Input(Node):
    """What each minibatch brings, of a declared shape; the minibatch gives the sizes of ``Free`` dimensions.

    With the dynamic axis ``""`` or a name of its own it brings sequences, with :data:`BATCH` one value for each sample,
    and without (``framed`` is False) one value for the whole minibatch.

    Attributes:
        sparse: it gives index:value pairs.
        needs_gradient: gradients are wanted by it, too, where nobody says by what.
    """

    op: Op = INPUT
    sparse: bool = False
    needs_gradient: bool = False

    @classmethod
    def make(
        cls,
        name: str,
        shape: Shape,
        *,
        sparse: bool = False,
        where: Location | None = None,
        axis: str = "",
        framed: bool = True,
        needs_gradient: bool = False,
    ) -> Input:
        """Make an input of a sample shape (memory order).

        Raises:
            NetworkError: a dimension is 0 or negative; it is sparse and has no dynamic axis, or has open dimensions.
        """
        if any(dim < 1 and not isinstance(dim, Free) for dim in shape):
            hint = "FREE is a dimension whose size each minibatch brings."
            raise NetworkError(f"the input '{name}' cannot be {show(shape)}", where=where, hint=hint)
        if sparse and not (framed and min(shape, default=0) >= 0):
            what = "an open dimension" if framed else "no dynamic axis"
            raise NetworkError(f"the sparse input '{name}' has {what}; only dense inputs can", where=where)
        return cls(
            name=name,
            op=SPARSE_INPUT if sparse else INPUT,
            shape=placed(shape),
            framed=framed,
            where=where,
            sparse=sparse,
            axis=axis if framed else "",
            needs_gradient=needs_gradient,
        )


@attrs.define(eq=False, repr=False)
class Parameter(Node):
    """A learned tensor. Dimensions 0 are inferred from the op that uses it.

    Attributes:
        learning_rate_multiplier: scales the learning rate; 0 means that it is not learned.
        needs_gradient: False freezes it whatever the multiplier.
        initializer: gives the first value once the shape is known.
        regularization_multiplier: scales L1 and L2 weights.
        collect: called before the value is read: who has put it into a store may keep it elsewhere for a time.
    """

    op: Op = PARAMETER
    learning_rate_multiplier: float = 1.0
    needs_gradient: bool = True
    initializer: Initializer | None = None
    regularization_multiplier: float = 1.0
    collect: Callable[[], None] | None = attrs.field(default=None, init=False)

    @property
    def value(self) -> NDArray[Any] | None:
        """The value, None before it was made."""
        if self.collect is not None:
            self.collect()
        return self._value

    @value.setter
    def value(self, value: NDArray[Any] | None) -> None:
        there = None if self.collect is None or value is None else self.value
        if there is None or there.shape != np.shape(value):  # type: ignore[arg-type]
            self._value = value
        else:
            there[...] = value  # programs compute with what lies in the store

    @property
    def learned(self) -> bool:
        """Whether training changes it."""
        return self.needs_gradient and self.learning_rate_multiplier > 0

    @classmethod
    def make(
        cls,
        name: str,
        shape: Shape,
        initializer: Initializer | None = None,
        *,
        value: NDArray[Any] | None = None,
        learning_rate_multiplier: float = 1.0,
        where: Location | None = None,
    ) -> Parameter:
        """Make a parameter of a shape (memory order) with an initializer or a value."""
        return cls(
            name=name,
            shape=shape,
            framed=False,
            where=where,
            value=None if value is None else np.asarray(value),
            initializer=initializer,
            learning_rate_multiplier=learning_rate_multiplier,
        )


def copies_of(nodes: Iterable[Node], *, share_parameters: bool = False) -> dict[Node, Node]:
    """Return copies of nodes, linked among themselves as these are.

    Parameters, unless they are shared, have values of their own that no store holds.
    """
    copies: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, Parameter) and share_parameters:
            copies[node] = node
            continue
        made = copies[node] = copy.copy(node)
        if isinstance(made, Parameter):
            made.collect = None
            made.value = None if node.value is None else node.value.copy()
    for node, made in copies.items():
        if made is not node:
            made.inputs = [copies.get(child, child) for child in node.inputs]
    return copies


@attrs.define(eq=False, repr=False)
class Placeholder(Node):
    """Stands for a node that is not known yet, in a network that is being made.

    Attributes:
        replacement: the node that has taken its place.
    """

    op: Op = PLACEHOLDER
    replacement: Node | None = attrs.field(default=None, init=False)

    @classmethod
    def make(
        cls, name: str, shape: Shape | None = None, *, axis: str | None = "", where: Location | None = None
    ) -> Placeholder:
        """Make a placeholder.

        ``shape`` is all of the sample shape (memory order) or None; ``axis`` None says that there is no dynamic axis.
        """
        framed = None if shape is None else axis is not None
        return cls(name=name, shape=shape, framed=framed, where=where, axis=axis or "")
