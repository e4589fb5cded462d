"""Whether onnxruntime computes of a file what the network computes, on random data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Network, Node
from cntk_model_onnx.data import RandomData, is_random
from cntk_model_onnx.export.choose import outputs_of
from cntk_model_onnx.quantize import missing
from cntk_model_onnx.settings import ExportSettings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Array = NDArray[Any]

_TOLERANCE = 1e-3


@attrs.frozen
class Difference:
    """How far a value is from what it should be: the largest of its elements, and the largest that it should have."""

    output: str
    largest: float
    size: float


def session_of(path: Path) -> InferenceSession:
    """Return what runs a file.

    Raises:
        PluginUnavailableError: onnxruntime is not there.
        DataError: it cannot run the file.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing(str(error)) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own exceptions have no base of their own
        hint = (
            "It has few operations for double: convert with --precision float."
            if "NOT_IMPLEMENTED" in str(error)
            else None
        )
        raise DataError(f"onnxruntime cannot run '{path}': {_first_line(error)}", hint=hint) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]


def check(network: Network, path: Path, settings: ExportSettings) -> str:
    """Return a line that tells the largest difference, and which outputs are random, and so left out.

    Raises:
        PluginUnavailableError: onnxruntime is not there.
        DataError: it cannot run the file, or the difference is more than rounding.
    """
    differences = compare(network, path, settings)
    random = ", ".join(f"'{node.name}'" for node in outputs_of(network) if is_random(node))
    if not differences:
        return f"{path}: onnxruntime runs it; all of its outputs are random, and not compared: {random}"
    worst = max(differences, key=lambda each: each.largest / max(each.size, 1.0))
    line = f"{path}: onnxruntime differs by {worst.largest:.2g} at most, in '{worst.output}' of up to {worst.size:.3g}"
    if settings.quantize == "none" and not worst.largest <= _TOLERANCE * max(worst.size, 1.0):
        raise DataError(line, hint="Please report the network; its file should not be used.")
    return f"{line}; random, and not compared: {random}" if random else line


def compare(network: Network, path: Path, settings: ExportSettings, seed: int = 0) -> list[Difference]:
    """Run a file and its network on the same random data; outputs that are random are left out.

    Raises:
        PluginUnavailableError: onnxruntime is not there.
        DataError: it cannot run the file.
    """
    from cntk_core.api.training import Model

    outputs = outputs_of(network)
    session = session_of(path)
    data = RandomData(network, outputs, settings, np.random.default_rng(seed))
    wanted = Model(network).evaluate(data.ours, [node.name for node in outputs])
    runs = [
        _run(session, feeds) for feeds in data.theirs({each.name: len(each.shape) for each in session.get_inputs()})
    ]
    differences = []
    for place, node in enumerate(outputs):
        if is_random(node):
            continue
        pairs = _pairs(wanted[node.name], [run[place] for run in runs], node)
        gaps = [_gap(ours, theirs) for ours, theirs in pairs]
        sizes = [np.nan_to_num(np.abs(ours), posinf=0.0).max(initial=0.0) for ours, _ in pairs]
        differences.append(Difference(node.name, float(np.max(gaps)), float(np.max(sizes))))
    return differences


def _gap(ours: Array, theirs: Array) -> float:
    """The largest difference; what is no number in both is equal, other sizes are infinitely far."""
    if ours.shape != theirs.shape:
        return float("inf")
    apart = np.abs(ours.astype(np.float64) - theirs)
    return float(np.where((np.isnan(ours) & np.isnan(theirs)) | (ours == theirs), 0.0, apart).max(initial=0.0))


def _run(session: InferenceSession, feeds: Mapping[str, Array]) -> Sequence[Any]:
    try:
        return list(session.run(None, dict(feeds)))
    except Exception as error:
        raise DataError(f"onnxruntime cannot run the file: {_first_line(error)}") from None


def _pairs(ours: Any, runs: Sequence[Array], node: Node) -> list[tuple[Array, Array]]:
    """What belongs together: values, or those of each sequence, without what is beyond its end."""
    if len(runs) > 1:  # one sequence a run
        return [(one, run[: len(one)]) for one, run in zip(ours, runs, strict=True)]
    theirs = runs[0]
    if not isinstance(ours, list):
        return [(ours, theirs)]
    sequences = theirs if theirs.ndim == ours[0].ndim + 1 else theirs[:, None]
    return [(one, sequences[number, : len(one)]) for number, one in enumerate(ours)]
