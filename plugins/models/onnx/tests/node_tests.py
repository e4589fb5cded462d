"""ONNX's own tests of single operations, as files that are read: ``python node_tests.py [NAME]`` says what comes of it.

A network has inputs and parameters, a test inputs alone. So of a test with several inputs some are made constant
tensors: whole numbers (axes, sizes), then all but one, then none. What is read and agrees in one of these ways counts.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from judge import load
from onnx import ModelProto, numpy_helper

from cntk_core.api import CntkError, Network
from cntk_testing.inside import Model

AGREES, REFUSED, DIFFERS = "agrees", "refused", "differs"

LIST = Path(__file__).with_name("node_tests.txt")
AGREEING = LIST.read_text(encoding="utf-8").split() if LIST.exists() else []
"""Names of the tests that agree; ``python node_tests.py > FILE`` says which these are."""


def cases() -> list[Any]:
    """All tests of single operations that the wheel of ONNX has, those of expanded functions left out."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = collect_testcases()
    return [each for each in found if not each.name.endswith("_expanded") and "_expanded_" not in each.name]


def _is_plain(model: ModelProto) -> bool:
    """Whether it has tensors of numbers alone, and operations of ONNX itself."""
    infos = [*model.graph.input, *model.graph.output]
    kinds = {info.type.tensor_type.elem_type for info in infos if info.type.HasField("tensor_type")}
    plain = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13}
    return all(info.type.HasField("tensor_type") for info in infos) and kinds <= plain


def _ways(arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[set[int]]:
    """Which inputs stay inputs, way by way."""
    seen: list[set[int]] = []
    numbers = {place for place, array in enumerate(arrays) if array.dtype.kind == "f" and array.ndim}
    for each in (numbers, set(range(len(arrays))), *({place} for place in range(len(arrays)))):
        if each and each not in seen:
            seen.append(each)
            yield each


def _with_constants(model: ModelProto, arrays: Sequence[np.ndarray[Any, Any]], kept: set[int]) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.input[:]
    for place, (info, array) in enumerate(zip(model.graph.input, arrays, strict=True)):
        if place in kept:
            made.graph.input.append(info)
        else:
            made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), info.name))
    return made


def _computed(network: Network, inputs: dict[str, np.ndarray[Any, Any]], axis: int) -> list[Any]:
    """The outputs of a network, if the samples of its inputs stand along an axis."""
    given = {}
    for node in network.inputs:
        array = np.asarray(inputs[node.name], np.float32)
        if node.framed and axis >= array.ndim:
            return []
        given[node.name] = np.moveaxis(array, axis, 0) if node.framed else array
        shape = given[node.name].shape[int(bool(node.framed)) :]
        if len(shape) != len(node.known_shape) or any(
            dim not in (size, -1) for size, dim in zip(shape, node.known_shape, strict=True) if dim >= 0
        ):
            return []
    found = Model(network, engine="cpu").evaluate(given, [node.name for node in network.roots["output"]])
    return [found[node.name] for node in network.roots["output"]]


def _agrees(found: Any, wanted: np.ndarray[Any, Any], case: Any) -> bool:
    array = np.asarray(found, np.float64)
    wanted = np.asarray(wanted).astype(np.float64)
    if array.size != wanted.size:
        return False
    for turned in (wanted, *(np.moveaxis(wanted, axis, 0) for axis in range(1, wanted.ndim))):
        if np.allclose(
            array.reshape(turned.shape), turned, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5), equal_nan=True
        ):
            return True
    return False


def outcome(case: Any, folder: Path) -> tuple[str, str]:
    """What comes of a test: one of the three words, and the reason."""
    model = case.model
    if not _is_plain(model):
        return REFUSED, "it has more than tensors of numbers"
    (inputs, outputs), *_ = case.data_sets
    arrays = [np.asarray(each) for each in inputs]
    if any(array.dtype.kind in "OSU" for array in arrays):
        return REFUSED, "it has texts"
    why, worst = "it has no input", REFUSED
    for kept in _ways(arrays):
        path = folder / "test.onnx"
        onnx.save(_with_constants(model, arrays, kept), path)
        feeds = {info.name: array for info, array in zip(model.graph.input, arrays, strict=True)}
        try:
            network = load(path)
            runs = [_computed(network, feeds, axis) for axis in (0, 1) if axis < max(1, *map(np.ndim, arrays))]
        except CntkError as error:
            if why == "it has no input":
                why = str(error).split("test.onnx")[-1]
            continue
        for found in runs:
            if found and all(_agrees(*pair, case) for pair in zip(found, outputs, strict=True)):
                return AGREES, ""
        worst, why = DIFFERS, f"kept {sorted(kept)}"
    return worst, why


if __name__ == "__main__":
    chosen = [case for case in cases() if len(sys.argv) < 2 or sys.argv[1] in case.name]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        for case in chosen:
            try:
                word, reason = outcome(case, Path(temporary))
            except Exception as error:
                word, reason = "BREAKS", f"{type(error).__name__}: {error}"
            counts[word] += 1
            print(word, case.name, reason[:170].replace("\n", " "))
    print(dict(counts))
