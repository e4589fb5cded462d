"""Axes as long as the longest sequence: arrays that grow and shrink from minibatch to minibatch."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_networks import compile_on, engine
from recurrent_checks import assert_same

from cntk_core.api.engines import make_plan
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

LENGTHS = ([3, 1], [6, 2, 2], [3, 1], [1], [2, 2, 2, 2, 2], [6, 2, 2], [1, 3], [0, 4, 0], [9], [3, 1])
"""Longer and shorter ones, and some that come again: as many frames with another longest sequence, too."""


@pytest.mark.parametrize("backend", ["numpy+blas", pytest.param("compiled+onednn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["unpacked", "whole_memory"])
@pytest.mark.sampled(2)
def test_minibatches_of_every_size(name, backend):
    if "compiled" in backend:
        pytest.importorskip("llvmlite")
    sample = SEQUENCE_SAMPLES[name](np.float64)
    open_nodes = [node for node in sample.network if node.op.name in ("UnpackSequence", "Tanh", "Exp")]
    plan = make_plan(sample.network, [*open_nodes, *sample.roots], sample.criterion)
    batches = [sequences_for(sample, lengths, seed) for seed, lengths in enumerate(LENGTHS)]
    assert_same(plan, backend, batches, np.float64)


def test_their_memory_is_counted():
    sample = SEQUENCE_SAMPLES["unpacked"](np.float64)
    _, program = compile_on(engine("numpy+blas"), make_plan(sample.network, [sample.criterion], sample.criterion))
    sizes = []
    for lengths in ([2, 2], [2, 40], [2, 2]):
        program.compute_gradients(sequences_for(sample, lengths, 0))
        sizes.append(program.memory())
    # A matrix of 2 x 40 frames of at least 2 numbers, its product and both gradients.
    assert sizes[1] - sizes[0] > 4 * 2 * 38 * 2 * 8
    assert sizes[2] == sizes[1]
