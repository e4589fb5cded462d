"""Images on this engine against the reference: convolution, pooling and batch normalization, while they learn."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, convolution, fallback

from cntk_core.api.engines import is_legacy
from cntk_testing.engine_contract import MOMENTUM, EngineContract, start
from cntk_testing.inside import BatchNormalizationAttributes, ConvolutionAttributes, PoolingAttributes
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

pytestmark = pytest.mark.usefixtures("standin")


def image_network(dtype, *, convolution, pooling, normalization=None, count=True):
    """conv -> batch normalization -> ReLU -> pooling -> product -> cross entropy."""
    made = Sketch(dtype)
    x, labels = made.input("x", 2, 9, 8), made.input("labels", 3)
    maps = 4
    kernel = np.prod(convolution.kernel_shape)
    weights = made.parameter("w", maps, int(kernel) // 2 * 2)
    h = made.op("Convolution", weights, x, attributes=convolution)
    if normalization is not None:
        made.network.infer()
        numbers = [
            made.parameter("scale", maps),
            made.parameter("bias", maps),
            made.given("mean", np.full(maps, 0.1), multiplier=0.0),
            made.given("variance", np.full(maps, 1.5), multiplier=0.0),
        ]
        if count:
            numbers.append(made.given("count", np.zeros(1), multiplier=0.0))
        h = made.op("BatchNormalization", h, *numbers, attributes=normalization)
    h = made.op("Pooling", made.op("RectifiedLinear", h), attributes=pooling)
    made.network.infer()
    out = made.op("Times", made.parameter("v", *h.known_shape, 3), h, attributes=times(3))
    criterion = made.op("CrossEntropyWithSoftmax", labels, out, name="ce")
    sample = made.finish(criterion, out, h)
    sample.one_hot.add("labels")
    return sample


def times(rank):
    from cntk_testing.inside import TimesAttributes

    return TimesAttributes(output_rank=1, infer_input_rank_to_map=-1) if rank else TimesAttributes()


CONVOLUTIONS = {
    "same": ConvolutionAttributes((3, 3, 2), map_count=4, stride=(1, 1, 2), auto_padding=(True, True, False)),
    "strided": ConvolutionAttributes((3, 2, 2), map_count=4, stride=(2, 1, 2), auto_padding=(False,)),
    "dilated": ConvolutionAttributes(
        (3, 2, 2), map_count=4, stride=(1, 2, 2), auto_padding=(True, False, False), dilation=(2, 3)
    ),
    "one": ConvolutionAttributes((1, 1, 2), map_count=4, stride=(1, 1, 2), auto_padding=(False,)),
    "padded": ConvolutionAttributes(
        (3, 3, 2), map_count=4, stride=(2, 2, 2), auto_padding=(False,), lower_pad=(2, 1, 0), upper_pad=(1, 1, 0)
    ),
}
POOLINGS = {
    "largest": PoolingAttributes((3, 3, 1), stride=(2, 2, 1), auto_padding=(True, True, False)),
    "mean": PoolingAttributes((2, 2, 1), pool_kind="average", stride=(1, 2, 1), auto_padding=(True, True, False)),
    "padding counts": PoolingAttributes(
        (3, 3, 1), pool_kind="average", stride=(1, 1, 1), auto_padding=(True, True, False), include_pad=True
    ),
}
NORMALIZATIONS = {
    "running": BatchNormalizationAttributes(spatial=True, normalization_time_constant=20.0),
    "cumulative": BatchNormalizationAttributes(spatial=True, normalization_time_constant=-1.0),
    "blended": BatchNormalizationAttributes(spatial=True, normalization_time_constant=20.0, blend_time_constant=10.0),
    "given": BatchNormalizationAttributes(spatial=True, blend_time_constant=float("inf")),
}

CASES = [
    *((name, "largest", None, False) for name in CONVOLUTIONS),
    *(("same", name, None, False) for name in ("mean", "padding counts")),
    *(("strided", "largest", name, count) for name in NORMALIZATIONS for count in (True, False)),
]


@pytest.mark.parametrize(("convolution", "pooling", "normalization", "count"), CASES)
@pytest.mark.sampled(7)
def test_training(convolution, pooling, normalization, count):
    settings = {
        "convolution": CONVOLUTIONS[convolution],
        "pooling": POOLINGS[pooling],
        "normalization": NORMALIZATIONS[normalization] if normalization else None,
        "count": count,
    }
    contract = EngineContract()
    dtype = "float32" if pooling == "mean" else "float64"
    runs = [
        start(engine, image_network(dtype, **settings), rule=MOMENTUM) for engine in (CudaEngine(), ReferenceEngine())
    ]
    ours, reference = runs
    before = ours.values()
    for step, frames in enumerate((5, 1, 6, 6)):
        for run in runs:
            run.program.train_step(run.sample.minibatch(frames, step), run.scalars(MOMENTUM, step))
        contract.assert_same_changes(ours, reference, before, dtype)
    for run in runs:
        run.program.evaluate(run.sample.minibatch(3, 9))
    contract.assert_same_roots(ours, reference, dtype)
    contract.assert_same_totals(ours, reference, dtype)


@pytest.mark.parametrize("op", ["MaxPooling", "AveragePooling", "Pooling"])
def test_pooling_has_kernels_for_windows_of_images(monkeypatch, op):
    """All but CNTK's windows in the layout HWC, which are no rectangles."""
    before = fallback.bind_forward

    def checked(site, step):
        pooled = [node for node in step.nodes if node.op.name == op and node.inputs[0].framed]
        assert all(is_legacy(node.attributes.image_layout) for node in pooled)
        return before(site, step)

    monkeypatch.setattr(fallback, "bind_forward", checked)
    EngineContract().test_op(CudaEngine(), op, "float64")


def test_a_large_minibatch_is_done_in_parts(monkeypatch):
    settings = {"convolution": CONVOLUTIONS["same"], "pooling": POOLINGS["largest"]}
    whole = start(CudaEngine(), image_network("float64", **settings), rule=MOMENTUM)
    whole.program.train_step(whole.sample.minibatch(7), whole.scalars(MOMENTUM))
    monkeypatch.setattr(convolution, "MOST", 2 * 18 * 72)
    parts = start(CudaEngine(), image_network("float64", **settings), rule=MOMENTUM)
    parts.program.train_step(parts.sample.minibatch(7), parts.scalars(MOMENTUM))
    for one, other in zip(whole.values(), parts.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
