"""Files of ONNX, judged by onnxruntime and by reading them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cntk_model_onnx.check import compare, session_of
from cntk_model_onnx.data import RandomData
from cntk_model_onnx.export.choose import outputs_of
from cntk_model_onnx.model_format import OnnxFormat
from cntk_model_onnx.settings import ExportSettings
from cntk_model_onnx.wire import read_model, write_model
from graphs import SAMPLES, Graph, number, some

from cntk_core.api import Network, core_ops
from cntk_testing.inside import Model

DATA = Path(__file__).parent / "data"


def load(path: Path) -> Network:
    return OnnxFormat().load(path, core_ops().find)


def written(network: Network, path: Path, **settings: str) -> Path:
    made = OnnxFormat()
    made.take_settings(settings)
    made.save(network, path)
    return path


def difference(network: Network, path: Path, **settings: str) -> float:
    """How far onnxruntime is from a network, in relation to the largest element if that is more than 1."""
    found = compare(network, written(network, path, **settings), ExportSettings(**settings))
    return max((each.largest / max(each.size, 1.0) for each in found), default=0.0)


def stripped(path: Path) -> Path:
    """A file without what it says of the network that it was made of."""
    read = read_model(path)
    del read.model.metadata_props[:]
    other = path.with_name(f"stripped-{path.name}")
    write_model(other, read.model, read.tensors)
    return other


def values(network: Network, data: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return Model(network, engine="cpu").evaluate(data, names)


def gap(one: Any, other: Any) -> float:
    if isinstance(one, list):
        return max(gap(*pair) for pair in zip(one, other, strict=True))
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    with np.errstate(invalid="ignore"):  # of infinite numbers, which are equal
        return float(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b)).max(initial=0.0))


def gap_between(network: Network, other: Network) -> float:
    """How far the outputs of two networks are from each other on random data."""
    outputs = outputs_of(network)
    data = RandomData(network, outputs, ExportSettings(), np.random.default_rng(3)).ours
    ours = values(network, data, [node.name for node in outputs])
    theirs = values(other, data, [node.name for node in outputs_of(other)])
    return max(gap(one, two) for one, two in zip(ours.values(), theirs.values(), strict=True))


def described(network: Network) -> list[str]:
    return [node.describe() for node in network]


def same(one: Network, other: Network) -> None:
    """Make sure that two networks are the same, with their values, groups and blocks."""
    assert described(one) == described(other)
    groups = [{role: [node.name for node in group] for role, group in each.roots.items()} for each in (one, other)]
    assert groups[0] == groups[1]
    assert [block.as_entry() for block in one.blocks] == [block.as_entry() for block in other.blocks]
    for node in one:
        twin = other[node.name]
        assert node.attributes == twin.attributes
        assert (node.value is None) == (twin.value is None)
        if node.value is not None:
            np.testing.assert_array_equal(node.value, twin.value)


def agrees(graph: Graph, folder: Path) -> None:
    """Make sure that a graph is read, and gives what onnxruntime gives."""
    path = graph.save(folder / "net.onnx")
    x = some(SAMPLES, *graph.shape) if graph.x is None else number(graph.x)
    (wanted,) = session_of(path).run(None, {"x": x})
    found = np.asarray(values(load(path), {"x": x}, ["y"])["y"])
    assert found.size == wanted.size
    assert gap(found.reshape(wanted.shape), wanted) < 1e-5 * max(1.0, float(np.abs(wanted).max()))
