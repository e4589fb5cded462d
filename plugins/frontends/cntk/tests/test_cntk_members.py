"""The members of CNTK 2.7's classes: data/members.txt, of the original (tools/record_cntk_members.py)."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import cntk as C
import numpy as np
import pytest

LINES = Path(__file__).with_name("data").joinpath("members.txt").read_text().splitlines()

_LISTS = "takes lists of its library that Python cannot make"
_INSIDE = "is called by the package itself"

ABSENT: dict[str, str] = {
    r"cntk\.Communicator\.(aggregate(_in_place)?|concatenate|gather|sub_group|all_reduce_\w+)": _LISTS,
    r"cntk\.Constant\.scalar": _LISTS,
    r"cntk\.DistributedLearner\..*": "learners that are distributed are learners here: they have a communicator",
    r"cntk\.(Evaluator|Trainer)\.\w+_overload_for_minibatchdata": _INSIDE,
    r".*Function\.(evaluate|gradients|clone_flattened|restore_from_checkpoint)": _LISTS,
    r".*Function\.(deserialize_method_name|module_name|set_native)": _INSIDE,
    r"cntk\.Function\.serialize": "is of functions that users write",
    r"cntk\.Value\.copy_variable_value_to(_float|_double)?": _LISTS,
    r"cntk\.Value\.create_(batch|sequence)_(float|double)": _LISTS,
    r"cntk\.io\.UserDeserializer\.(chunk_infos|get_sequence_info|sequence_infos_for_chunk)": _INSIDE,
    r"cntk\.layers\.NDShape\..*": "a shape in C++; shapes are tuples",
    r"cntk\.layers\.SequenceOverMeta\..*": "a class of a class, for annotations; SequenceOver[axis][...] is there",
}
"""Members that are not there, as patterns, and why."""

_BY_PLACE = "the original's name is that of C++, and is not taken by Python there either"
_NOTHING = "a value that cannot be changed by accident stands for an empty one"

OTHERWISE: dict[str, str] = {
    r".*Learner\.(add_progress_writers|reset_learning_rate)": _BY_PLACE,
    r"cntk\.NDArrayView\.(alias|as_shape)": _BY_PLACE,
    r"cntk\.Value\.alias": _BY_PLACE,
    r".*Function\.train": _NOTHING,
    r"cntk\.Constant\.clone_as": _BY_PLACE,
    r".*Function\.as_string": _BY_PLACE,
    r"cntk\.TrainingSession\.restore_from_checkpoint": _BY_PLACE,
    r".*\.UserFunction\.(forward|backward)": "what else there is, is given by place",
    r"cntk\.Trainer\.save_checkpoint": _NOTHING,
    r".*ProgressWriter\.(on_write_distributed_sync_update|write)": _BY_PLACE,
}
"""Methods that take something else, as patterns, and why."""

MADE = {
    "cntk.MinibatchData": lambda: C.MinibatchData(C.Value([[1.0]]), 1, 1, False),
    "cntk.io.StreamConfiguration": lambda: C.io.StreamConfiguration("a", 3),
    "cntk.io.StreamInformation": lambda: C.io.StreamInformation("a", 0, "dense", np.float32, (3,)),
}
"""Objects of classes that have members of their own."""


def split(line: str) -> tuple[str, str, str, str | None]:
    path, _, rest = line.partition("(")
    owner, _, member = path.rpartition(".")
    module, _, name = owner.rpartition(".")
    return module, name, member, rest[:-1] if rest else None


def reason(path: str, reasons: dict[str, str]) -> str | None:
    return next((why for pattern, why in reasons.items() if re.fullmatch(pattern, path)), None)


def takes(given: Any) -> dict[str, Any]:
    return {each.name: each.default for each in inspect.signature(given).parameters.values()}


def wanted(theirs: str) -> list[tuple[str, str | None]]:
    """Return names and defaults of what the original takes, as far as it names anything."""
    parts = [each for each in theirs.split(", ") if each and not re.match(r"self$|\*|arg\d+$", each)]
    return [(name, default if mark else None) for name, mark, default in (each.partition("=") for each in parts)]


CLASSES = sorted({".".join(split(line)[:2]) for line in LINES})


@pytest.mark.parametrize("path", CLASSES)
def test_every_member_is_there_and_takes_what_it_took(path: str) -> None:
    module, _, name = path.rpartition(".")
    ours = MADE[path]() if path in MADE else getattr(importlib.import_module(module), name, None)
    missing, other = [], []
    for line in LINES:
        home, owner, member, theirs = split(line)
        if (home, owner) != (module, name):
            continue
        told = f"{path}.{member}"
        if reason(told, ABSENT):
            assert not hasattr(ours, member), told
        elif not hasattr(ours, member):
            missing.append(told)
        elif theirs is not None and callable(given := getattr(ours, member)) and not reason(told, OTHERWISE):
            found = takes(given)
            for argument, default in wanted(theirs):
                if argument not in found or (default not in (None, "<object>") and repr(found[argument]) != default):
                    other.append(f"{told}({argument}={default}): {found}")
    assert (missing, other) == ([], [])


def test_reasons_are_of_something_that_is_there() -> None:
    paths = {line.partition("(")[0] for line in LINES}
    for pattern in (*ABSENT, *OTHERWISE):
        assert any(re.fullmatch(pattern, path) for path in paths), pattern
