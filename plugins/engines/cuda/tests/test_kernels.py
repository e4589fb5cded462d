"""The kernels: what a compiler for GPUs says of them, and what some compute beside what networks show."""

from __future__ import annotations

import re
from pathlib import Path

import cntk_engine_cuda
import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine
from cntk_engine_cuda.gpu import THREADS
from cntk_engine_cuda.source import Result, prelude, spec_of
from cntk_engine_cuda.windows import Windows

from cntk_core.api import random_stream
from cntk_core.api.engines import symbol
from cntk_testing.engine_contract import ADAPTIVE, NORMALIZED, start
from cntk_testing.networks import SAMPLES
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for
from cntk_testing_gpu.cuda_compile import ARCHITECTURES, compile_cuda, why_not_compile
from cntk_testing_gpu.cuda_shim import ORDERS, HostCuda, why_not_on_host

FOLDER = Path(cntk_engine_cuda.__file__).parent / "kernels"
PRECISIONS = {"float": (), "double": ("-DUSE_DOUBLE",)}
WINDOWS = Windows((3, 1, 8, 9), (3, 1, 3, 3), (1, 1, 2, 1), (0, 0, 1, 1), (1, 1, 4, 9))

needs_compiler = pytest.mark.skipif(bool(why_not_compile()), reason=why_not_compile() or "there is a compiler")


def files():
    named = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.cu") if path.stem != "windows"}
    return named | {name: WINDOWS.text(name) for name in ("im2col", "average", "largest")}


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "architecture",
    [*(pytest.param(name, marks=pytest.mark.thorough) for name in ARCHITECTURES[:-1]), ARCHITECTURES[-1]],
)
@pytest.mark.parametrize("name", sorted(files()))
@pytest.mark.thinned
@pytest.mark.sampled(4)
def test_written_kernels_compile(name, architecture, precision):
    compile_cuda(f"{prelude()}\n{files()[name]}", architecture, ("--std=c++14", *PRECISIONS[precision]))


@pytest.fixture
def generated(standin):
    """The texts that a few networks and rules need."""
    made = CudaEngine()
    for name, rule in (("classifier", ADAPTIVE), ("reductions", NORMALIZED), ("softmaxes", ADAPTIVE)):
        run = start(made, SAMPLES[name]("float32"), rule=rule)
        run.program.train_step(run.sample.minibatch(600), run.scalars(rule))
    name = sorted(SEQUENCE_SAMPLES)[0]
    run = start(made, SEQUENCE_SAMPLES[name]("float32"), rule=ADAPTIVE)
    run.program.train_step(sequences_for(run.sample, [3, 2]), run.scalars(ADAPTIVE))
    return sorted({key[0].text for key in made.gpu._kernels if not isinstance(key[0], str)})


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.thinned(2)
def test_generated_kernels_compile(generated, precision):
    assert len(generated) > 10
    named = [re.sub(r"\bkernel\(", f"kernel{number}(", text) for number, text in enumerate(generated)]
    compile_cuda("\n".join([prelude(), *named]), ARCHITECTURES[-1], ("--std=c++14", *PRECISIONS[precision]))


@pytest.mark.usefixtures("standin")
class TestDropout:
    @pytest.mark.parametrize(("first", "count"), [(0, 1), (0, 16), (5, 19), (8, 3), (13, 40), (7, 1)])
    def test_draws_the_numbers_of_numpy_from_any_place_on(self, first, count):
        gpu = CudaEngine().gpu
        seed, node, step, rate = 2**63 + 11, 4, (3 << 32) + 17, 0.3
        drawn = random_stream(seed, node, step).random(first + count, dtype=np.float32)[first:]
        given = np.arange(1, count + 1, dtype=np.float64)
        with gpu.current():
            xp = gpu.cupy
            out = xp.empty((count,), dtype=np.float64)
            arguments = (
                xp.asarray(given), out, xp.asarray(np.array([step], np.uint64)), xp.asarray(np.array([rate])),
                np.uint64(seed), np.uint64(node), np.uint64(first), np.int64(count), np.int64(0),
            )  # fmt: skip
            gpu.named("dropout", "dropout", np.dtype(np.float64))((2,), (THREADS,), arguments)
            found = out.get()
        np.testing.assert_allclose(found, np.where(drawn >= np.float32(rate), given / (1 - rate), 0.0), rtol=1e-12)


@pytest.mark.usefixtures("standin")
class TestRows:
    @pytest.mark.parametrize("width", [1, 31, 32, 33, 300])
    def test_softmax_of_wide_rows(self, width):
        gpu = CudaEngine().gpu
        rows = np.random.default_rng(width).normal(size=(3, width)) * 30
        with gpu.current():
            out = gpu.cupy.empty(rows.shape, dtype=np.float64)
            kernel = gpu.named("rows", "softmax", np.dtype(np.float64))
            kernel((3,), (64,), (gpu.cupy.asarray(rows), out, np.int64(width)))
            found = out.get()
        expected = np.exp(rows - rows.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)

    @pytest.mark.parametrize(
        ("labels", "scores", "best", "errors"),
        [
            ([0, 1, 0], [1, 2, 0], 1, 0),
            ([0, 1, 0], [2, 2, 0], 1, 1),
            ([1, 0, 0], [2, 2, 0], 1, 0),
            ([0, 1, 0], [3, 2, 0], 2, 0),
            ([0, 1, 0], [np.nan, 2, 0], 1, 1),
            ([0, 1, 0], [0, np.nan, 0], 1, 1),
            ([1, 1, 0], [5, 6, 0], 1, 1),
        ],
    )
    def test_errors_are_counted_as_the_op_does(self, labels, scores, best, errors):
        gpu = CudaEngine().gpu
        dtype = np.dtype(np.float32)
        with gpu.current():
            arrays = [gpu.cupy.asarray(np.array(each, dtype)) for each in (labels, scores, [best])]
            out = gpu.cupy.empty((1,), dtype=dtype)
            gpu.named("rows", "classification_error", dtype)((1,), (32,), (*arrays, out, np.int64(3)))
            assert out.get().tolist() == [errors]


@pytest.fixture(scope="module")
def rows():
    """The kernels that go row by row, on the host."""
    names = ["cross_entropy", "sparse_cross_entropy", "sparse_cross_entropy_gradient", "hardmax"]
    text = f"{prelude()}\n{files()['rows']}"
    return HostCuda(text, [*names, "classification_error"], {"USE_DOUBLE": "1"})


@pytest.mark.skipif(bool(why_not_on_host()), reason=why_not_on_host() or "kernels run on the host")
@pytest.mark.slow
class TestRaces:
    """Threads in any order, and guards around every array: what a missing barrier or a wrong index would change."""

    @pytest.mark.parametrize("order", ORDERS)
    def test_cross_entropy(self, rows, order):
        frames, width = 3, 70
        random = np.random.default_rng(1)
        logits = random.normal(size=(frames, width)) * 9
        labels = np.eye(width)[[5, 69, 0]]
        softmax, losses = np.full((frames, width), np.nan), np.full(frames, np.nan)
        arguments = [labels, logits, softmax, losses, np.int64(width)]
        rows.launch("cross_entropy", grid=frames, block=64, arguments=arguments, order=order, seed=3)
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        expected = shifted / shifted.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(softmax, expected, rtol=1e-12)
        np.testing.assert_allclose(losses, -np.log(expected[labels > 0]), rtol=1e-10)
        start, places, data = np.array([0, 1, 2, 3]), np.array([5, 69, 0]), np.ones(3)
        sparse = [np.full(array.shape, np.nan) for array in (softmax, losses)]
        given = [start, places, data, logits, *sparse, np.int64(width)]
        rows.launch("sparse_cross_entropy", grid=frames, block=64, arguments=given, order=order, seed=4)
        for one, other in zip(sparse, (softmax, losses), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        out = np.full((frames, width), 0.5)
        given = [start, places, data, softmax, np.array([2.0]), out, np.int64(width), np.int64(1)]
        rows.launch("sparse_cross_entropy_gradient", grid=frames, block=64, arguments=given, order=order, seed=5)
        np.testing.assert_allclose(out, 0.5 + 2.0 * (expected - labels), rtol=1e-10, atol=1e-14)

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_largest_and_the_errors(self, rows, order):
        width = 90
        scores = np.random.default_rng(2).integers(0, 5, size=(4, width)).astype(float)
        out = np.full(scores.shape, np.nan)
        rows.launch("hardmax", grid=4, block=64, arguments=[scores, out, np.int64(width)], order=order, seed=1)
        np.testing.assert_array_equal(out, np.eye(width)[scores.argmax(axis=1)])
        labels = np.eye(width)[[scores[0].argmax(), 3, scores[2].argmax(), scores[3].argmin()]]
        errors = np.full(4, np.nan)
        arguments = [labels, scores, np.array([1.0]), errors, np.int64(width)]
        rows.launch("classification_error", grid=4, block=64, arguments=arguments, order=order, seed=1)
        np.testing.assert_array_equal(errors, labels.argmax(axis=1) != scores.argmax(axis=1))

    @pytest.mark.parametrize("block", [(8, 32), (1, 64), (64, 1)])
    @pytest.mark.thinned(3)
    def test_sums_in_parts(self, block):
        frames, width, splits = 100, 13, 2
        values = np.random.default_rng(3).normal(size=(frames, width))
        spec, names = spec_of(
            (0, width), {"x": (True, True)}, [Result(symbol("x") * symbol("x"))], (False, True), block=block
        )
        assert names == ("x",)
        counts = [np.int64(number) for number in (width, frames, 50)]
        program = HostCuda(f"{prelude()}\n{spec.text}", ["kernel"], {"USE_DOUBLE": "1"})
        grid = (-(-width // block[0]), splits)
        parts = (values**2).reshape(splits, 50, width).sum(axis=1)
        for order in ORDERS:
            out = np.full(width * splits, np.nan)
            program.launch("kernel", grid=grid, block=block, arguments=[values, out, *counts], order=order, seed=7)
            np.testing.assert_allclose(out.reshape(width, splits), parts.T, rtol=1e-12)


def test_a_long_sum_is_shared_by_blocks(standin):
    """Parts of a sum are added by a launch of their own; one block alone would leave the device idle."""
    runs = [
        start(engine, SAMPLES["shared"]("float64"), rule=NORMALIZED) for engine in (CudaEngine(), ReferenceEngine())
    ]
    for frames in (9000, 3, 5000):
        for run in runs:
            run.program.train_step(run.sample.minibatch(frames), run.scalars(NORMALIZED))
    ours, reference = (run.program.read_totals() for run in runs)
    assert ours == pytest.approx(dict(reference), rel=1e-9)
