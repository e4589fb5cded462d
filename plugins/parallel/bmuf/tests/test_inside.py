"""How the ranks of one worker sum their gradients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cntk_parallel_bmuf.inside import WorkerGradients, aggregation_name, aggregation_names
from cntk_parallel_bmuf.momentum import BlockRule

from cntk_core.api import GradientAggregation, Parameter, ParameterStore, Schedule
from cntk_core.api.parallel import StepCounts
from cntk_testing import VirtualRanks


@pytest.mark.parametrize(
    ("bits", "named", "expected"),
    [(None, "", "full"), (16, "", "quantized"), (32, "", "full"), (64, "", "full"), (1, "mine", "mine")],
)
def test_the_aggregation_of_an_epoch(bits: int | None, named: str, expected: str) -> None:
    schedule = None if bits is None else Schedule.constant(bits)
    assert aggregation_name(schedule, named, 3) == expected
    assert aggregation_names(schedule, named) == (expected,)


class Recorded(GradientAggregation):
    """Sums exactly, and notes how many values it was given; what it keeps changes with each sum."""

    requires_api = "1.0"

    def begin(self, store: ParameterStore, communicator: Any) -> None:
        super().begin(store, communicator)
        self.kept, self.epochs, self.sizes = np.zeros(1), list[int](), list[tuple[int, int]]()

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def aggregate(self, gradients: Any, header: Any, communicator: Any) -> None:
        self.sizes.append((gradients.size, header.size))
        self.kept = self.kept + 1.0
        communicator.allreduce(gradients)
        communicator.allreduce(header)

    def state(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def restore(self, state: Any) -> None:
        self.kept = np.array(state["kept"])


def test_gradients_of_a_worker_s_ranks_are_summed() -> None:
    def work(communicator: Any) -> Any:
        fixed = Parameter.make("fixed", (3,), value=np.zeros(3), learning_rate_multiplier=0.0)
        store = ParameterStore([Parameter.make("w", (4,), value=np.zeros(4)), fixed], np.float64)
        aggregation = Recorded()
        asked: Any = SimpleNamespace(gradient_bits=None, aggregation="mine")
        inside = WorkerGradients(asked, {"mine": aggregation}, store, communicator)
        found = []
        for epoch, samples in enumerate((2, 0)):
            inside.begin_epoch(epoch)
            store.gradients[...] = 1.0 + communicator.rank
            total = inside.reduce(store, StepCounts(samples, {"ce": 1.0}))
            found.append((total.samples, total.is_end, float(store.gradients[0]), float(aggregation.kept[0])))
        header = StepCounts(2, {"ce": 1.0}).header().size
        assert aggregation.sizes == [(store.learned_size, header)] * 2
        return found, aggregation.epochs, inside.state()

    # A step of which no rank has a sample leaves what the aggregation keeps as it was.
    for found, epochs, state in VirtualRanks(2).run(work):
        assert found == [(4, False, 3.0, 1.0), (0, True, 3.0, 1.0)]
        assert epochs == [0, 1]
        assert {name: array.tolist() for name, array in state.items()} == {"mine/kept": [1.0]}


@pytest.mark.parametrize(("weight", "workers", "gain"), [(None, 4, 0.5), (0.25, 4, 0.5), (1.0, 3, 1.5)])
def test_how_much_a_step_takes_at_once(weight: float | None, workers: int, gain: float) -> None:
    assert BlockRule(0.9, 0.5, weight, nesterov=False, as_cntk=False).gain(workers) == gain
