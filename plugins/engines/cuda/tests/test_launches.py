"""What training steps put on the device: shared launches, blocks for all processors, no more than there is to do.

The results are compared elsewhere; they are the same if a sum is left to one block, and training takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import test_cuda_images
from cntk_engine_cuda.binding import KERNELS
from cuda_images import images
from launches import count_launches, texts_of

from cntk_core.api import Minibatch, core_ops
from cntk_testing.networks import SAMPLES, Sample
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

LAUNCHES = Path(__file__).with_name("launches.txt")
LENGTHS = [3, 2], [40, 12, 31, 1]
FRAMES = 5, 4096
AXES_BY_VALUES = {
    "attention", "whole_memory", "unpacked", "looking", "comparing", "heads", "gathered", "chosen", "opened", "reduced",
    "convolved", "side_by_side",
}  # fmt: skip
"""Networks of several stages, of which one has to run before the next can be bound."""

Case = tuple[Sample, Callable[[Sample], Minibatch]]


def cases() -> dict[str, Callable[[], Case]]:
    """Networks with their data, by name."""
    found: dict[str, Callable[[], Case]] = {}
    for name, make in SAMPLES.items():
        for count in FRAMES:
            found[f"{name} {count}"] = lambda make=make, count=count: (
                make("float32"),
                lambda one: one.minibatch(count),
            )
    for name in sorted(set(SEQUENCE_SAMPLES) - AXES_BY_VALUES):
        for lengths in LENGTHS:
            found[f"{name} {len(lengths)} sequences"] = lambda name=name, lengths=lengths: (
                SEQUENCE_SAMPLES[name]("float32"),
                lambda one: sequences_for(one, lengths),
            )
    for count in (4, 300):
        found[f"images {count}"] = lambda count=count: (images("float32"), lambda one: one.minibatch(count))
    pooling = next(iter(test_cuda_images.POOLINGS.values()))
    for name, convolution in test_cuda_images.CONVOLUTIONS.items():
        found[f"convolution {name}"] = lambda convolution=convolution: (
            test_cuda_images.image_network("float32", convolution=convolution, pooling=pooling),
            lambda one: one.minibatch(7),
        )
    for op in sorted({kernel.op.name for kernel in KERNELS} & set(EXAMPLES)):
        found[f"op {op}"] = lambda op=op: _example(op)
    return found


def _example(name: str) -> Case:
    op = core_ops().find("", name)
    assert op is not None
    sample, data = network_of(cases_together(op, EXAMPLES[name])[0], "float32")
    return sample, lambda _: data


CASES = cases()


def expected() -> dict[str, str]:
    """What stands in the table, by network."""
    lines = [line for line in LAUNCHES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: row.strip() for name, row in (line.split(":") for line in lines)}


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("name", CASES)
def test_what_a_step_launches(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sample, minibatch = CASES[name]()
    assert count_launches(monkeypatch, sample, minibatch) == expected()[name]


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_kernels_serve_minibatches_of_all_sizes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """How many frames there are is told at the launch; compiling takes longer than a step."""
    sample = SAMPLES[name]("float32")
    first, *later = texts_of(monkeypatch, sample, [sample.minibatch(count) for count in (32768, 49152, 40960)])
    assert first
    assert later == [set(), set()]
