"""Primitive functions: an operation with its inputs, attributes and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs
from cntk_model_cntk2.operations import OPERATIONS

if TYPE_CHECKING:
    from cntk.ops._user import UserFunction
    from cntk.variables import Variable

COMBINE, BLOCK, USER = 44, 57, -1
"""Functions that compute nothing themselves, and those that users write."""

TIMES, TRANSPOSE_TIMES, PAST, FUTURE, GATHER, RANDOM, RESHAPE, DROPOUT = 31, 32, 37, 38, 74, 76, 16, 15
SAMPLE, FREQUENCY = 45, 46

NAMES = {number: operation.name for number, operation in OPERATIONS.items()} | {COMBINE: "Combine", BLOCK: "Block"}
"""What the original calls its operations, by their numbers."""

NUMBERS = {name: number for number, name in NAMES.items()}

_SHOWN = {name: f"{name}Op" for name in ("OneHot", "ToSequence", "ToSequenceLike", "UnpackSequence")} | {
    name: f"{name}Axis" for name in ("UnpackBatch", "ToBatch")
}
"""What CNTK 2.7 shows in the place of some names."""

_NUMBERS = count()


def next_uid(stem: str) -> str:
    """Return a name that nothing else has."""
    return f"{stem}{next(_NUMBERS)}"


@attrs.frozen(eq=False)
class Inside:
    """What a block is made of.

    Attributes:
        kind: ``Dense``.
        roots: variables inside whose values are those of the block's outputs.
        arguments: placeholders inside, and the variables outside for which they stand. They change as those do.
    """

    kind: str
    roots: tuple[Variable, ...]
    root: Primitive
    arguments: dict[Variable, Variable]


@attrs.define(eq=False)
class Primitive:
    """A function that is one operation, or a block of several.

    Attributes:
        number: of the operation, as in the original's files.
        uid: unique in the program.
        inputs: in the order of the original's files: of ``Times``, the right factor of NumPy's order comes first.
        attributes: as in the original's files.
        name: that the user gave, or "".
        outputs: the variables that it makes; of a ``Combine`` its inputs.
        inside: of a block.
        user: of a function that a user wrote.
        stamp: counts changes of its inputs.
        programs: what was compiled of graphs that end here.
        custom: attributes that a user has put there.
        function: what a user sees of it, made when he asks.
    """

    number: int
    inputs: list[Variable]
    attributes: dict[str, Any] = attrs.field(factory=dict)
    name: str = ""
    inside: Inside | None = None
    user: UserFunction | None = None
    uid: str = ""
    outputs: list[Variable] = attrs.field(factory=list)
    stamp: int = 0
    programs: dict[Any, Any] = attrs.field(factory=dict)
    custom: dict[str, Any] = attrs.field(factory=dict)
    function: Any = None

    def __attrs_post_init__(self) -> None:
        self.uid = self.uid or next_uid(self.kind)

    @property
    def kind(self) -> str:
        """What the original calls the operation."""
        name = NAMES.get(self.number, "UserDefinedFunction" if self.number == USER else f"Operation{self.number}")
        return _SHOWN.get(name, name)

    @property
    def called(self) -> str:
        """The operation's name; that of a block is its user's."""
        if self.inside is not None:
            return self.inside.kind
        return self.user.op_name if self.user is not None else self.kind

    @property
    def operands(self) -> list[Variable]:
        """The inputs in the order in which Python has them."""
        if self.number in (TIMES, TRANSPOSE_TIMES, GATHER) and len(self.inputs) == 2:
            return self.inputs[::-1]
        return list(self.inputs)

    @property
    def delays(self) -> bool:
        """Whether it gives values of its first input at another step."""
        return self.number in (PAST, FUTURE)

    def relink(self, found: Mapping[Variable, Variable]) -> None:
        """Put variables in the place of others among the inputs, and in what a block stands for."""
        if any(each in found for each in self.inputs):
            self.inputs = [found.get(each, each) for each in self.inputs]
            self.stamp += 1
            if self.number == COMBINE:
                self.outputs = list(self.inputs)
        if self.inside is not None:
            for inner, outer in self.inside.arguments.items():
                self.inside.arguments[inner] = found.get(outer, outer)


def preorder(roots: Iterable[Primitive], *, nested: bool = False) -> list[Primitive]:
    """Return the functions on which some depend, each before what it reads, as far as there are no loops.

    Args:
        roots: where to begin.
        nested: go into blocks, too: what is inside comes after the block.
    """
    found: dict[Primitive, None] = {}
    stack: list[Iterator[Primitive]] = [iter(roots)]
    while stack:
        for one in stack[-1]:
            if one not in found:
                found[one] = None
                stack.append(_below(one, nested))
                break
        else:
            stack.pop()
    return list(found)


def _below(one: Primitive, nested: bool) -> Iterator[Primitive]:
    if nested and one.inside is not None:
        yield one.inside.root
    for each in one.operands:
        if each._owner is not None:
            yield each._owner


def postorder(roots: Iterable[Primitive]) -> list[Primitive]:
    """Return the functions on which some depend, those of blocks as well, each after what it needs but for delays."""
    found: dict[Primitive, None] = {}
    later = list(roots)
    while later:
        entered: set[Primitive] = set()
        stack: list[tuple[Primitive | None, Iterator[Primitive]]] = [(None, iter([later.pop(0)]))]
        while stack:
            owner, rest = stack[-1]
            for one in rest:
                if one not in found and one not in entered:
                    entered.add(one)
                    stack.append((one, _needed(one, later)))
                    break
            else:
                stack.pop()
                if owner is not None:
                    found[owner] = None
    return list(found)


def _needed(one: Primitive, later: list[Primitive]) -> Iterator[Primitive]:
    for each in one.inputs[1:] if one.delays else one.inputs:
        if each._owner is not None:
            yield each._owner
    if one.inside is not None:
        yield one.inside.root
    if one.delays and one.inputs[0]._owner is not None:
        later.append(one.inputs[0]._owner)


def leaves_of(roots: Iterable[Primitive], *, nested: bool = False, in_files: bool = False) -> list[Variable]:
    """Return inputs, parameters, constants and placeholders that functions read, each once, in the original's order.

    That is the order in which one meets them going down into each operand before the next one.

    Args:
        roots: the functions.
        nested: go into blocks, too, before their operands.
        in_files: operands come as files have them, and not as Python has.
    """
    found: dict[Variable, None] = {}
    entered: set[Primitive] = set()
    stack: list[Iterator[Variable | Primitive]] = [iter(roots)]
    while stack:
        for each in stack[-1]:
            if isinstance(each, Primitive):
                owner: Primitive | None = each
            else:
                owner = each._owner
            if owner is None:
                assert not isinstance(each, Primitive)
                found.setdefault(each)
            elif owner not in entered:
                entered.add(owner)
                stack.append(_operands_of(owner, nested, in_files))
                break
        else:
            stack.pop()
    return list(found)


def _operands_of(one: Primitive, nested: bool, in_files: bool) -> Iterator[Variable | Primitive]:
    if nested and one.inside is not None:
        yield one.inside.root
    yield from one.inputs if in_files else one.operands
