"""The public names of CNTK 2.7's Python, and what its functions and classes take: data/names.txt, of the original."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

LINES = Path(__file__).with_name("data").joinpath("names.txt").read_text().splitlines()

_LIBRARY = "is about the original's library or its installation"
_PROXY = "stands for a C++ operator of a library beside the original"
_OTHER_NAME = "is SentinelValueForAutoSelectRandomSeed, which is there under this name"
_ALONE = "learners that are distributed are learners here: they have a communicator"
_TYPES = "a class of a class, for annotations; SequenceOver[axis][...] is there"

ABSENT: dict[str, str] = {
    "cntk.DistributedLearner": _ALONE,
    "cntk.auto_select": _OTHER_NAME,
    "cntk.cntk_library_path": _LIBRARY,
    "cntk.custom_proxy_op": _PROXY,
    "cntk.data_type_to_dtype": "turns numbers of C++ types into types of NumPy",
    "cntk.install_samples": _LIBRARY,
    "cntk.layers.NDShape": "a shape in C++; shapes are tuples",
    "cntk.layers.SequenceOverMeta": _TYPES,
    "cntk.layers.typing.SequenceOverMeta": _TYPES,
    "cntk.losses.auto_select": _OTHER_NAME,
    "cntk.ops.custom_proxy_op": _PROXY,
    "cntk.random.auto_select": _OTHER_NAME,
    "cntk.train.DistributedLearner": _ALONE,
    "cntk.train.distributed.DistributedLearner": _ALONE,
}
"""Names that are not there, and why."""

_OPEN = "None stands for a default that is open until it is called"
_SAID = "what the original takes in any number is said by name"
_MORE = "more can be left out, as in older versions"
_NOTHING = "a value that cannot be changed by accident stands for an empty one"

OTHERWISE: dict[str, str] = {
    "cntk.core.NDArrayView": _MORE,
    "cntk.debugging.debug.debug_model": "streams that are not said are those of the moment when it is called",
    "cntk.io.CBFDeserializer": _NOTHING,
    "cntk.io.UserDeserializer": "its subclasses need not call it",
    "cntk.learners.adam": _OPEN,
    "cntk.learners.fsadagrad": _OPEN,
    "cntk.learners.momentum_sgd": _OPEN,
    "cntk.learners.nesterov": _OPEN,
    "cntk.losses.lattice_sequence_with_softmax": "it is refused",
    "cntk.metrics.edit_distance_error": _NOTHING,
    "cntk.ops.combine": _SAID,
    "cntk.ops.mean": _SAID,
    "cntk.ops.roipooling": "older versions have no pooling_type in the middle",
    "cntk.ops.sequence.input": _OPEN,
    "cntk.ops.sequence.input_variable": _OPEN,
    "cntk.ops.splice": _SAID,
    "cntk.ops.sum": _SAID,
    "cntk.train.distributed.WorkerDescriptor": "the original makes it, and not a program",
    "cntk.train.training_session.training_session": _MORE,
    "cntk.variables.Record": "dictionaries are taken, too",
    "cntk.variables.Variable": _NOTHING,
}
"""What is taken otherwise, and why."""


def parts(line: str) -> tuple[str, str, str | None]:
    """Return module, name, and what it takes."""
    path, _, rest = line.partition("(")
    module, _, name = path.rpartition(".")
    return module, name, rest[:-1] if rest else None


def taken(given: Any, theirs: str) -> str:
    """Return what something takes, as text; a default that the original shows as an object is any."""
    signature = inspect.signature(given.__init__ if inspect.isclass(given) else given)
    told = []
    objects = {each.split("=")[0] for each in theirs.split(", ") if each.endswith("=<object>")}
    for each in signature.parameters.values():
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f"={each.default!r}"
        told.append(f"{star}{each.name}{'=<object>' if each.name in objects and default else default}")
    return ", ".join(told)


@pytest.mark.parametrize("module", sorted({parts(line)[0] for line in LINES}))
def test_every_name_is_there_and_takes_what_it_took(module: str) -> None:
    missing, other = {}, {}
    ours = importlib.import_module(module)
    for line in LINES:
        home, name, theirs = parts(line)
        if home != module:
            continue
        path = f"{module}.{name}"
        try:
            found = getattr(ours, name)
        except AttributeError:
            missing[path] = True
            continue
        if theirs is not None and (now := taken(found, theirs)) != theirs:
            other[path] = now
    assert missing.keys() == {path for path in ABSENT if parts(path)[0] == module}
    assert other.keys() == {path for path in OTHERWISE if parts(path)[0] == module}, other
