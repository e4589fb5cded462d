"""From CNTK 2 to version 1 of its format and back: values, what the original makes of it, a network of great size."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_files import arrays, index, write

from cntk_core.api import CntkError, Network, Node, Parameter, core_ops
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_core.api.training import Model
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

RECORDED = json.loads(Path(__file__).with_name("recorded-1.json").read_text(encoding="utf-8"))
"""What the original made of our files of version 1."""

OTHERWISE = {
    "crop": "the original's reader of version 1 loses the offsets, also of its own files",
    "scalar-input": "an input without axes gets one",
}


@cache
def files() -> ModelFiles:
    return ModelFiles(PluginManager(load_hooks=False).registry)


@pytest.mark.sampled(12)
@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", sorted(index()))
def test_what_the_original_loaded_is_what_we_write(name: str, tmp_path: Path) -> None:
    """``tools/record_cntk2.py`` had the original load and evaluate these very files."""
    try:
        network = files().load(write(name, tmp_path))
        files().save(network, tmp_path / "old.dnn", "CNTK-1")
    except CntkError:
        assert name not in RECORDED
        return
    assert hashlib.sha256((tmp_path / "old.dnn").read_bytes()).hexdigest() == RECORDED[name]["sha256"], (
        "record it again"
    )
    compared = index()[name]["compare"] and name not in OTHERWISE
    assert (RECORDED[name]["difference"] is not None) == compared
    assert (RECORDED[name]["difference"] or 0.0) <= 1.0


@pytest.mark.sampled(12)
@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", [name for name in RECORDED if index()[name]["compare"]])
def test_values_stay(name: str, tmp_path: Path) -> None:
    first = files().load(write(name, tmp_path))
    files().save(first, tmp_path / "old.dnn", "CNTK-1")
    again = files().load(tmp_path / "old.dnn")
    outputs = [node.name for role in ("output", "criterion", "evaluation") for node in first.roots[role]]
    data = inputs(first, name)
    expected = Model(first, engine=ReferenceEngine()).evaluate(data, outputs)
    found = Model(again, engine=ReferenceEngine()).evaluate(data, outputs)
    for output in outputs:
        for one, other in zip(rows(expected[output]), rows(found[output]), strict=True):
            np.testing.assert_allclose(np.reshape(one, np.shape(other)), other, rtol=1e-5, atol=1e-6)


def rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def inputs(network: Network, name: str) -> dict[str, Any]:
    given, data = arrays(name, "in/"), dict[str, Any]()
    for node in network.inputs:
        whole = given.get(f"in/{node.name}")
        parts = sorted((key for key in given if key.startswith(f"in/{node.name}/")), key=lambda key: (len(key), key))
        data[node.name] = [given[key] for key in parts] if whole is None else whole
    return data


# -- size -------------------------------------------------------------------------------------------------


class Residual:
    """A network with the shapes of ResNet-50: 25.6 million numbers."""

    def __init__(self) -> None:
        self.made = Sketch("float32")
        self.network = self.made.network
        self.random = np.random.default_rng(1)

    def op(self, name: str, kind: str, inputs: list[Node], **settings: Any) -> Node:
        op = core_ops().find("model", kind)
        assert op is not None
        return self.network.add(Node(name, op, inputs, op.attributes(**settings)))

    def numbers(self, name: str, *shape: int, learned: bool = True) -> Parameter:
        value = self.random.random(shape, np.float32)
        made = Parameter.make(name, shape, value=value, learning_rate_multiplier=float(learned))
        self.network.add(made)
        return made

    def convolution(self, x: Node, name: str, size: int, stride: int, channels: tuple[int, int]) -> Node:
        before, after = channels
        weights = self.numbers(f"{name}.W", after, before, size, size)
        windows = {"kernel_shape": (size, size, before), "map_count": (after,), "stride": (stride, stride, before)}
        same = {"sharing": (True,) * 3, "auto_padding": (True, True, False)}
        y = self.op(f"{name}.c", "Convolution", [weights, x], **windows, **same)
        learned = [self.numbers(f"{name}.{part}", after) for part in ("scale", "bias")]
        kept = [self.numbers(f"{name}.{part}", after, learned=False) for part in ("mean", "variance")]
        count = self.numbers(f"{name}.count", 1, learned=False)
        assert count.value is not None
        count.value[...] = 100
        return self.op(name, "BatchNormalization", [y, *learned, *kept, count], spatial=True)

    def unit(self, x: Node, name: str, stride: int, channels: tuple[int, int]) -> Node:
        before, width = channels
        y, inner = x, before
        for place, size in enumerate((1, 3)):
            made = self.convolution(y, f"{name}.{place}", size, 1 if place else stride, (inner, width))
            y, inner = self.op(f"{name}.r{place}", "RectifiedLinear", [made]), width
        y = self.convolution(y, f"{name}.2", 1, 1, (width, 4 * width))
        if before != 4 * width:
            x = self.convolution(x, f"{name}.x", 1, stride, (before, 4 * width))
        return self.op(f"{name}.out", "RectifiedLinear", [self.op(f"{name}.sum", "Plus", [y, x])])

    def finish(self) -> Network:
        x = self.convolution(self.made.input("x", 3, 224, 224), "stem", 7, 2, (3, 64))
        x = self.op("pool", "Pooling", [x], kernel_shape=(3, 3, 1), stride=(2, 2, 1), auto_padding=(True, True, False))
        before = 64
        for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
            for place in range(count):
                x = self.unit(x, f"s{stage}.{place}", 2 if stage and not place else 1, (before, width))
                before = 4 * width
        average = {"pool_kind": "average", "stride": (1, 1, 1), "auto_padding": (False,) * 3}
        x = self.op("mean", "Pooling", [x], kernel_shape=(7, 7, 1), **average)
        z = self.op("z", "Times", [self.numbers("W", 2048, 1, 1, 1000), x])
        self.network.mark(z, "output")
        self.network.infer()
        return self.network


@pytest.mark.thorough
def test_a_network_of_the_size_of_resnet_50(tmp_path: Path) -> None:
    """It goes to version 2 and back to version 1 the same, and takes no more than 2.5 times its size."""
    files().save(Residual().finish(), tmp_path / "first.dnn", "CNTK-1")
    size = (tmp_path / "first.dnn").stat().st_size
    assert size > 100_000_000
    for source, target, form in (("first.dnn", "net.model", "CNTK-2"), ("net.model", "again.dnn", "CNTK-1")):
        tracemalloc.start()
        files().save(files().load(tmp_path / source), tmp_path / target, form)
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert largest < 2.5 * size
    assert (tmp_path / "again.dnn").read_bytes() == (tmp_path / "first.dnn").read_bytes()
