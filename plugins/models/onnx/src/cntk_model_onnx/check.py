"""Whether onnxruntime computes of a file what the network computes, on random data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Input, Network, Node
from cntk_core.api.builders import BATCH
from cntk_model_onnx.export.choose import outputs_of
from cntk_model_onnx.quantize import missing
from cntk_model_onnx.settings import ExportSettings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Array = NDArray[Any]

SEQUENCES, SHORTEST, LONGEST = 3, 2, 7
_OPEN = 32
"""Size of a dimension that each minibatch brings."""

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
    """Return a line that tells the largest difference.

    Raises:
        PluginUnavailableError: onnxruntime is not there.
        DataError: it cannot run the file, or the difference is more than rounding.
    """
    differences = compare(network, path, settings)
    worst = max(differences, key=lambda each: each.largest / max(each.size, 1.0))
    line = f"{path}: onnxruntime differs by {worst.largest:.2g} at most, in '{worst.output}' of up to {worst.size:.3g}"
    if settings.quantize == "none" and not worst.largest <= _TOLERANCE * max(worst.size, 1.0):
        raise DataError(line, hint="Please report the network; its file should not be used.")
    return line


def compare(network: Network, path: Path, settings: ExportSettings, seed: int = 0) -> list[Difference]:
    """Run a file and its network on the same random data.

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
        return [
            (one, run.reshape(-1, *run.shape[1:])[: len(one)].reshape(one.shape))
            for one, run in zip(ours, runs, strict=True)
        ]
    theirs = runs[0]
    if not isinstance(ours, list):
        return [(ours, theirs.reshape(ours.shape))]
    sequences = theirs if theirs.ndim == ours[0].ndim + 1 else theirs[:, None]
    return [(one, sequences[number, : len(one)]) for number, one in enumerate(ours)]


class RandomData:
    """Random samples or sequences for the inputs that nodes need.

    Attributes:
        ours: as :class:`~cntk_core.model.Model` takes them.
    """

    def __init__(
        self, network: Network, outputs: Sequence[Node], settings: ExportSettings, rng: np.random.Generator
    ) -> None:
        from cntk_model_onnx.export.exporter import looks_along

        self._rng, self._settings, self._dtype = rng, settings, network.dtype
        order = network.order(outputs, stop_at_constants=True)
        self._inputs = [node for node in order if isinstance(node, Input)]
        self._sequential = any(looks_along(node) for node in order)
        self._open: dict[str, int] = {}
        self._tables = {
            node.inputs[0]: node.inputs[1].known_shape[0]
            for node in order
            if node.op.name == "Gather" and isinstance(node.inputs[0], Input)
        }
        self.lengths: dict[str, list[int]] = {}
        self.ours: dict[str, Any] = {node.name: self._values(node) for node in self._inputs}

    def _values(self, node: Input) -> Any:
        shape = tuple(self._size(dim) if dim < 0 else int(dim) for dim in node.known_shape)
        if not node.framed:
            return self._sample(node, shape, ())
        if not self._in_time(node):
            return self._sample(node, shape, (SEQUENCES,))
        if node.axis not in self.lengths:
            self.lengths[node.axis] = self._rng.integers(SHORTEST, LONGEST, size=SEQUENCES).tolist()
        return [self._sample(node, shape, (length,)) for length in self.lengths[node.axis]]

    def _in_time(self, node: Input) -> bool:
        return self._sequential and node.framed is True and node.axis != BATCH

    def _size(self, dim: int) -> int:
        return self._open.setdefault(getattr(dim, "name", "") or str(dim), _OPEN)

    def _sample(self, node: Input, shape: tuple[int, ...], frames: tuple[int, ...]) -> Array:
        if node.sparse and len(shape) == 1:
            return self._rng.integers(shape[0], size=frames)
        if node in self._tables:
            return self._rng.integers(self._tables[node], size=(*frames, *shape)).astype(self._dtype)
        return self._rng.normal(size=(*frames, *shape)).astype(self._dtype)

    def theirs(self, ranks: Mapping[str, int]) -> list[dict[str, Array]]:
        """Return the same for a file whose inputs have these ranks; one for each run."""
        if self._sequential and self._settings.sequences == "one":
            return [{name: self._one(name, number) for name in ranks} for number in range(SEQUENCES)]
        return [{name: self._padded(name) for name in ranks}]

    def _node(self, name: str) -> Input | None:
        return next((node for node in self._inputs if node.name == name), None)

    def _hot(self, node: Input, value: Array) -> Array:
        if self._settings.sparse == "index" or not node.sparse or len(node.known_shape) != 1:
            return value
        return np.eye(node.known_shape[0], dtype=self._dtype)[value]

    def _one(self, name: str, number: int) -> Array:
        node = self._node(name)
        assert node is not None, "one sequence has its length by itself"
        value = self.ours[name]
        return self._hot(node, value[number] if node.framed else value)

    def _padded(self, name: str) -> Array:
        node = self._node(name)
        if node is None:
            axis = name.removesuffix("lengths").removesuffix("_")
            return np.asarray(self.lengths[axis if axis in self.lengths else next(iter(self.lengths))], np.int64)
        value = self.ours[name]
        if not isinstance(value, list):
            return self._hot(node, value)
        whole = [self._hot(node, one) for one in value]
        longest = max(map(len, whole))
        padded = np.zeros((len(whole), longest, *whole[0].shape[1:]), whole[0].dtype)
        for row, one in zip(padded, whole, strict=True):
            row[: len(one)] = one
        return padded
