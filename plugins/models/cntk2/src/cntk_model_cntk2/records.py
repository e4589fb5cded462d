"""A model file as records: its variables, its functions, its root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import attrs

from cntk_core.api import ModelFormatError, UnsupportedError
from cntk_model_cntk2.values import Array, Axis, NDShape, SizeT
from cntk_model_cntk2.wire import Decoder

INPUT, OUTPUT, PARAMETER, CONSTANT, PLACEHOLDER = range(5)
"""Kinds of variables."""

HALF, FLOAT, DOUBLE = 4, 1, 2
"""Types of numbers."""

COMBINE, BLOCK, USER = 44, 57, -1
"""Functions that compute nothing themselves, and those that users write."""

NEWEST = {"Dictionary": 2, "CompositeFunction": 3, "Variable": 1, "PrimitiveFunction": 24}
"""Newest version of each thing in a file, those that CNTK 2.7 writes."""

_Kind = TypeVar("_Kind")
_MISSING: Any = object()
_CALLED = {
    bool: "a truth value",
    int: "a number",
    str: "a text",
    list: "a list",
    dict: "a dictionary",
    float: "a number",
    NDShape: "a shape",
    Axis: "an axis",
    Array: "an array",
}


@attrs.frozen(eq=False)
class Entry:
    """A dictionary of a file, with what it is for messages.

    Attributes:
        values: by key.
        place: such as ``the function 'Times12'``.
        path: the file.
    """

    values: Mapping[str, Any]
    place: str
    path: Path

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def fail(self, message: str) -> NoReturn:
        """Raise ModelFormatError."""
        raise ModelFormatError(f"'{self.path}' is damaged: {self.place} {message}")

    def take(self, key: str, kind: type[_Kind], default: Any = _MISSING) -> _Kind:
        """Return a value. A whole number may stand for any number.

        Raises:
            ModelFormatError: there is none and no default, or it is of another kind.
        """
        value: Any = self.values.get(key, default)
        if value is _MISSING:
            self.fail(f"has no '{key}'")
        if kind is float and type(value) in (int, SizeT):
            value = float(value)
        if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            self.fail(f"has a '{key}' that is not {_CALLED[kind]}")
        return value  # type: ignore[no-any-return]

    def each(self, key: str, kind: type[_Kind], default: Any = _MISSING) -> list[_Kind]:
        """Return the values of a list.

        Raises:
            ModelFormatError: it is not there, or something in it is of another kind.
        """
        values = self.take(key, list, default)
        if not all(isinstance(value, kind) for value in values):
            self.fail(f"has something in its '{key}' that is not {_CALLED[kind]}")
        return values

    def inner(self, key: str) -> Entry:
        """Return a dictionary inside this one."""
        return Entry(self.take(key, dict), self.place, self.path)


@attrs.frozen(eq=False)
class Variable:
    """A leaf: an input, a parameter, a constant, or a placeholder for the output of a function or an argument.

    Attributes:
        uid: unique in the file.
        kind: :data:`INPUT` and so on.
        dims: in CNTK's order.
        axes: dynamic axes: none, the batch, or a sequence and the batch.
        value: of parameters and constants.
    """

    uid: str
    kind: int
    name: str
    dims: tuple[int, ...]
    axes: tuple[Axis, ...]
    sparse: bool
    needs_gradient: bool
    double: bool
    value: Array | None
    entry: Entry


@attrs.frozen(eq=False)
class Block:
    """What is inside a function that is a block.

    Attributes:
        kind: ``Dense``.
        root: uid of the function inside that has its outputs.
        arguments: uid of each placeholder inside to that of the variable that it stands for.
    """

    kind: str
    root: str
    arguments: Mapping[str, str]


@attrs.frozen(eq=False)
class Written:
    """What is kept of a function that its user wrote.

    Attributes:
        called: the name of its operation: ``my.module.Squared``.
        module: of its class, or the library that has it.
        kind: its class; "" of one in C++.
        state: what its user keeps of it.
        native: it is one in C++.
    """

    called: str
    module: str
    kind: str
    state: Any
    native: bool


@attrs.frozen(eq=False)
class Function:
    """A function: its operation's number, the uids of its inputs, its attributes."""

    uid: str
    operation: int
    name: str
    inputs: tuple[str, ...]
    version: int
    attributes: Entry
    block: Block | None
    written: Written | None = None


@attrs.frozen(eq=False)
class Composite:
    """A model file. Functions stand before those that read them, except in loops."""

    root: str
    variables: Mapping[str, Variable]
    functions: Mapping[str, Function]
    path: Path


def read_dictionary(path: Path) -> dict[str, Any]:
    """Return the dictionary in a file.

    Raises:
        ModelFormatError: it cannot be read, or is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"the model '{path}' cannot be read: {error.strerror}") from None
    return Decoder(content, path).file()


def read_composite(path: Path, *, users: bool = False) -> Composite:
    """Return the records of a model file.

    Args:
        path: the file.
        users: functions that users wrote are records, too.

    Raises:
        ModelFormatError: it is no model, damaged or newer.
        UnsupportedError: it has functions that users wrote.
    """
    top = Entry(read_dictionary(path), "the file", path)
    if "Learners" in top:
        raise ModelFormatError(
            f"'{path}' holds the learners of a training, not a model",
            hint="The model is in the file of the same name without '.ckp'.",
        )
    if top.take("type", str, "") != "CompositeFunction":
        raise ModelFormatError(f"'{path}' is a dictionary of CNTK 2, but no model")
    _check_version(top, "CompositeFunction")
    variables: dict[str, Variable] = {}
    for values in top.each("inputs", dict):
        variable = _variable(Entry(values, "an input", path))
        if variable.uid in variables:
            variable.entry.fail("has a uid that another one has")
        variables[variable.uid] = variable
    functions: dict[str, Function] = {}
    for values in top.each("primitive_functions", dict):
        function = _function(Entry(values, "a function", path))
        if function.uid in functions:
            function.attributes.fail("has a uid that another one has")
        if function.written is not None and not users:
            raise _written_by_users(function, function.written)
        functions[function.uid] = function
    root = top.take("root", str)
    if root not in functions:
        top.fail(f"has no function '{root[:80]}', which should be its root")
    return Composite(root, variables, functions, path)


def _check_version(entry: Entry, what: str) -> int:
    version = entry.take("version", int, 0)
    if version > NEWEST[what]:
        raise ModelFormatError(
            f"'{entry.path}' is a model of a later CNTK: {entry.place} is of version {version}; "
            f"versions up to {NEWEST[what]} can be read"
        )
    return version


def _named(entry: Entry, what: str) -> Entry:
    return attrs.evolve(entry, place=f"{what} '{entry.take('uid', str)[:80]}'")


def _variable(entry: Entry) -> Variable:
    entry = _named(entry, "the variable")
    _check_version(entry, "Variable")
    kind, data_type = entry.take("kind", int), entry.take("data_type", int)
    if not INPUT <= kind <= PLACEHOLDER:
        entry.fail(f"is of the unknown kind {kind}")
    if data_type not in (0, FLOAT, DOUBLE, HALF):
        raise UnsupportedError(
            f"'{entry.path}': {entry.place} holds numbers of the type {data_type}, which are not known"
        )
    value = entry.take("value", Array, None)
    if kind in (PARAMETER, CONSTANT) and value is None:
        entry.fail("has no 'value'")
    return Variable(
        uid=entry.take("uid", str),
        kind=kind,
        name=entry.take("name", str, ""),
        dims=entry.take("shape", NDShape).dims,
        axes=tuple(entry.each("dynamic_axis", Axis, [])),
        sparse=entry.take("is_sparse", bool, False),
        needs_gradient=entry.take("needs_gradient", bool, False),
        double=data_type == DOUBLE,
        value=value,
        entry=entry,
    )


def _function(entry: Entry) -> Function:
    entry = _named(entry, "the function")
    kind = entry.take("type", str)
    if kind == "UserDefinedFunction":
        return _written(entry)
    if kind != "PrimitiveFunction":
        raise UnsupportedError(f"'{entry.path}': {entry.place} is a '{kind[:80]}', which is not known")
    version = _check_version(entry, "PrimitiveFunction")
    operation = entry.take("op", int)
    block = None
    if operation == BLOCK:
        composite = entry.inner("block_function_composite")
        keys, values = (
            entry.each(f"block_function_composite_arguments_map_{each}", str) for each in ("keys", "values")
        )
        if len(keys) != len(values):
            entry.fail(f"has {len(keys)} arguments and {len(values)} values for them")
        arguments = dict(zip(keys, values, strict=True))
        block = Block(entry.take("block_function_op_name", str), composite.take("root", str), arguments)
    return Function(
        uid=entry.take("uid", str),
        operation=operation,
        name=entry.take("name", str, ""),
        inputs=tuple(entry.each("inputs", str)),
        version=version,
        attributes=Entry(entry.take("attributes", dict), entry.place, entry.path),
        block=block,
    )


def _written(entry: Entry) -> Function:
    """A function that is code of somebody's own."""
    kept = entry.inner("user_defined_state")
    native = entry.take("native", bool, False)
    inner, called = ("user_defined_state", "op") if native else ("state", "op_name")
    return Function(
        uid=entry.take("uid", str),
        operation=USER,
        name=entry.take("name", str, ""),
        inputs=tuple(entry.each("inputs", str)),
        version=_check_version(entry, "PrimitiveFunction"),
        attributes=Entry({}, entry.place, entry.path),
        block=None,
        written=Written(
            called=kept.take(called, str),
            module=kept.take("module", str),
            kind="" if native else kept.take("class", str),
            state=kept.values.get(inner),
            native=native,
        ),
    )


def _written_by_users(function: Function, written: Written) -> UnsupportedError:
    entry = function.attributes
    return UnsupportedError(
        f"'{entry.path}': {entry.place} was written by its user ({written.called[:80]}"
        f"{f', in C++ in {written.module[:80]}' if written.native else ''}); what it computes is not in the file",
        hint="Take it out, or put an operation in its place, before the model is saved.",
    )
