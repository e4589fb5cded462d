"""Gradients of networks on sequences, of ops that have no example of their own: by differences along a direction."""

from __future__ import annotations

from typing import Any

import pytest

from cntk_core.network.node import Input
from cntk_testing.gradients import check_along_directions
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for


@pytest.mark.parametrize("name", SEQUENCE_SAMPLES)
def test_gradients_agree_with_differences(name: str) -> None:
    sample = SEQUENCE_SAMPLES[name]("float64")
    criterion = sample.criterion
    assert criterion is not None
    read = set(sample.network.order([criterion]))
    by: list[Any] = [node for node in sample.network.inputs if isinstance(node, Input) and _is_smooth(sample, node)]
    by += [node for node in sample.network.parameters if node.learned]
    assert by
    check_along_directions(
        sample.network, criterion, [node for node in by if node in read], sequences_for(sample, [4, 1, 3], 2)
    )


def _is_smooth(sample: Any, node: Input) -> bool:
    """Whether small changes of its numbers change the criterion a little: not so of classes and words."""
    return not node.sparse and node.name not in (*sample.one_hot, "word_and_class", "phones")
