"""Images whose sizes only the data have: windows that lie alike in all of them, and those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from judge import values, written

from cntk_core.api import CntkError, Network, Node, core_ops
from cntk_core.api.builders import FREE
from cntk_testing.networks import Sketch


def settings(op: str, *given: Any, **more: Any) -> Any:
    found = core_ops().find("", op)
    assert found is not None
    return found.attributes(*given, **more)


def network(*, padded: bool) -> Network:
    """A convolution of images with three channels, its largest values in every second place, and a part of them."""
    made = Sketch("float32")
    image = made.input("image", 3, FREE, FREE)
    weights = made.parameter("W", 4, 3, 3, 3)
    kernel = settings("Convolution", (3, 3, 3), (4,), auto_padding=(True, True, False))
    found = made.op("Convolution", weights, image, attributes=kernel)
    windows = settings("Pooling", (3, 2), "max", stride=(2, 2), auto_padding=(padded,))
    pooled = made.op("Pooling", found, attributes=windows, name="pooled")
    part = made.op("Slice", pooled, attributes=settings("Slice", (1, -2), (0, -1), (1, 2)), name="part")
    return finished(made, part)


def finished(made: Sketch, root: Node) -> Network:
    made.finish(None, root)
    made.network.roots["output"] = [root]
    return made.network


@pytest.mark.parametrize("sizes", [(9, 8), (6, 11)])
def test_windows_that_lie_alike(sizes: tuple[int, int], tmp_path: Path) -> None:
    made = network(padded=False)
    session = onnxruntime.InferenceSession(str(written(made, tmp_path / "free.onnx")))
    data = np.random.default_rng(1).normal(size=(2, 3, *sizes)).astype(np.float32)
    (found,) = session.run(None, {"image": data})
    np.testing.assert_allclose(found, values(made, {"image": data}, ["part"])["part"], rtol=1e-4, atol=1e-5)


def test_a_padding_that_fills_up_the_last_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CntkError) as caught:
        written(network(padded=True), tmp_path / "free.onnx")
    assert str(caught.value) == (
        "Pooling 'pooled' cannot be written as ONNX: how its windows lie depends on sizes that only the data have\n"
        "    Give the input a fixed size."
    )
    assert not (tmp_path / "free.onnx").exists()


def test_a_geometry_that_needs_sizes_is_refused(tmp_path: Path) -> None:
    made = Sketch("float32")
    image, apart = made.input("image", 3, FREE, 8), {"stride": (2, 2), "auto_padding": (False,)}
    like = made.op("Pooling", image, attributes=settings("Pooling", (2, 2), "max", **apart))
    windows = settings("MaxUnpooling", (2, 2), "max", **apart)
    root = made.op("MaxUnpooling", like, image, attributes=windows, name="unpooled")
    with pytest.raises(CntkError, match="MaxUnpooling 'unpooled' cannot be written as ONNX: it needs sizes that only"):
        written(finished(made, root), tmp_path / "free.onnx")
