"""One program for each size that minibatches bring, as if there were one for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.node import Input
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.language.layouts import frame_layout, slot_layout
from cntk_core.ops.language.shapes import FREE, is_free
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.any_size import KEPT, AnySizeProgram, sized_plan
from cntk_testing import ReferenceEngine
from cntk_testing.input_contract import DESCENT, RATE
from cntk_testing.networks import Sample, Sketch
from cntk_testing.reference import ReferenceProgram


def pooled() -> Sample:
    """The mean of rows of any length, times a weight; the sum is the criterion."""
    made = Sketch("float64")
    x = made.network.add(Input.make("x", (1, FREE)))
    mean = made.op("Pooling", x, attributes=PoolingAttributes((), "average", auto_padding=(False,)), name="mean")
    z = made.op("ElementTimes", made.parameter("w", 1), mean, name="z")
    return made.finish(made.op("SumElements", z, name="sum"), z)


def remembering(*, wide: bool = False) -> Sample:
    """What a value was a step before: of the mean of a row, or of the row itself."""
    made = Sketch("float64")
    x = made.network.add(Input.make("x", (1, FREE)))
    mean = made.op("Pooling", x, attributes=PoolingAttributes((), "average", auto_padding=(False,)))
    past = made.op("PastValue", x if wide else mean, name="past")
    return made.finish(None, past)


def compiled(sample: Sample, rule: Any = None) -> AnySizeProgram:
    store = ParameterStore(sample.network.parameters, sample.network.dtype)
    program = ReferenceEngine().compile(make_plan(sample.network, sample.roots, sample.criterion), store, rule, seed=1)
    assert isinstance(program, AnySizeProgram)
    program.begin_epoch(0)
    return program


def rows(size: int, value: float = 1.0, count: int = 1) -> Minibatch:
    return Minibatch({"x": StreamData(np.full((count, 1, size), value), frame_layout(count))}, count)


def piece(size: int, value: float, *, begun: bool) -> Minibatch:
    """One frame of a sequence that goes on."""
    layout = slot_layout([[1]], continued=[begun], continues=[True])
    return Minibatch({"x": StreamData(np.full((1, 1, size), value), layout)}, 1)


def programs(program: AnySizeProgram) -> int:
    return len(program._programs)


def test_few_programs_are_kept_and_totals_are_not_lost():
    program = compiled(pooled())
    (weight,) = program.plan.parameters
    assert weight.value is not None
    for size in range(1, KEPT + 6):
        program.evaluate(rows(size, value=float(size)))
        assert programs(program) == min(size, KEPT)
    program.evaluate(rows(KEPT + 5, value=0.0))
    wanted = float(weight.value[0]) * sum(range(1, KEPT + 6))
    assert program.read_totals() == {"sum": pytest.approx(wanted, rel=1e-14)}
    assert program.read_totals() == {"sum": 0.0}
    assert program.memory() == sum(each.memory() for each in program._programs.values())
    assert program.remarks() == []


def test_nothing_is_known_before_a_minibatch():
    program = compiled(pooled())
    for ask in (program.value, program.layout):
        with pytest.raises(NetworkError, match="the root 'z' has not been computed yet"):
            ask("z")
    assert program.read_totals() == {"sum": 0.0}


def test_an_update_may_come_before_any_minibatch():
    program = compiled(pooled(), DESCENT)
    before = program.plan.trained[0].value
    assert before is not None
    kept = before.copy()
    program.update([{"rate": RATE}])
    np.testing.assert_array_equal(program.plan.trained[0].value, kept)
    program.compute_gradients(rows(3))
    program.update([{"rate": RATE}])
    np.testing.assert_allclose(program.plan.trained[0].value, kept - RATE, rtol=1e-14)
    assert program.step == 1


def test_a_minibatch_without_frames_has_the_last_sizes():
    program = compiled(pooled(), DESCENT)
    program.compute_gradients(rows(3))
    program.compute_gradients(Minibatch({"x": StreamData(np.zeros((0, 1, 0)), frame_layout(0))}, 0))
    assert programs(program) == 1
    assert program.step == 2


def test_values_are_carried_from_one_size_to_another():
    program = compiled(remembering())
    found = []
    for number, size in enumerate((2, 5, 2)):
        program.evaluate(piece(size, float(number + 1), begun=number > 0))
        found.append(float(program.value("past").item()))
    assert found == [pytest.approx(0.1), 1.0, 2.0]
    program.begin_epoch(1)
    program.evaluate(piece(5, 9.0, begun=False))
    assert program.value("past").item() == pytest.approx(0.1)


def test_a_state_is_that_of_all_sizes():
    one, other = compiled(remembering()), compiled(remembering())
    one.evaluate(piece(2, 1.0, begun=False))
    state = one.state()
    assert state is not None
    other.evaluate(piece(4, 7.0, begun=False))
    other.restore(state)
    for program in (one, other):
        program.evaluate(piece(3, 5.0, begun=True))
        assert program.value("past").item() == 1.0
    summed = compiled(pooled())
    summed.evaluate(rows(2))
    summed.evaluate(rows(3))
    kept = summed.state()
    assert kept is not None
    again = compiled(pooled())
    again.evaluate(rows(4))
    again.restore(kept)
    assert again.read_totals() == summed.read_totals() == kept.totals


def test_a_value_of_another_size_is_not_carried():
    program = compiled(remembering(wide=True))
    program.evaluate(piece(2, 1.0, begun=False))
    with pytest.raises(DataError) as error:
        program.evaluate(piece(3, 1.0, begun=True))
    assert str(error.value) == (
        "sequences go on from the minibatch before, where 'x' was [2 x 1]; it is [3 x 1] now, and 'past' keeps a value "
        "of the other size\n"
        "    Within a sequence free dimensions keep their sizes."
    )
    program.evaluate(piece(3, 1.0, begun=False))
    assert program.value("past").shape == (1, 1, 3)


def test_programs_get_the_settings():
    seen = []

    class Noting(ReferenceProgram):
        def evaluate(self, minibatch: Minibatch) -> None:
            seen.append((dict(self.settings), self.step))

    sample = pooled()
    store = ParameterStore(sample.network.parameters, sample.network.dtype)
    program = AnySizeProgram(
        lambda plan: Noting(plan, store, None, 0), make_plan(sample.network, sample.roots, sample.criterion)
    )
    program.begin_epoch(2, {"dropoutRate": 0.5}, minibatches_done=3)
    for size in (1, 2):
        program.evaluate(rows(size))
    assert seen == [({"dropoutRate": 0.5}, (2 << 32) + 3)] * 2


def test_nothing_has_been_computed_yet() -> None:
    sample = pooled()
    program = compiled(sample)
    first = program.plan.roots[0].name
    for ask in (program.backward, lambda: program.gradient(first), lambda: program.value(first)):
        with pytest.raises(NetworkError) as caught:
            ask()
        assert caught.value.message == f"the root '{first}' has not been computed yet"


def test_the_programs_that_were_used_last_are_kept():
    made: list[Any] = []
    program = compiled(pooled())
    compile_plan = program._compile
    program._compile = lambda plan: made.append(plan) or compile_plan(plan)
    for size in (*range(1, KEPT + 1), 1, KEPT + 1, 1):
        program.evaluate(rows(size))
    assert len(made) == KEPT + 1
    program.evaluate(rows(2))
    assert len(made) == KEPT + 2
    assert programs(program) == KEPT


def test_gradients_by_nodes_of_any_size():
    sample = pooled()
    network = sample.network
    plan = make_plan(network, [network["z"]], by=[network["x"], network["w"]])
    store = ParameterStore(network.parameters, network.dtype)
    program = ReferenceEngine().compile(plan, store, None, seed=1)
    program.begin_epoch(0)
    (weight,) = network.parameters
    for step, (size, count) in enumerate([(4, 2), (2, 1), (4, 1)], start=1):
        program.forward(rows(size, 3.0, count))
        assert program.step == step
        program.backward()
        np.testing.assert_allclose(program.gradient("x"), np.full((count, 1, size), weight.value.item() / size))
        np.testing.assert_allclose(program.gradient("w"), [3.0 * count])
    program.forward(rows(4), training=False)
    assert program.step == 3


def test_a_plan_of_a_size_is_that_of_the_same_network():
    sample = pooled()
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    network = sample.network
    found = sized_plan(plan, {network["x"]: (1, 5)})
    assert [node.name for node in found.network] == [node.name for node in network]
    assert found.network["x"].shape == (1, 5)
    assert found.network["w"] is network["w"]
    assert found.network["z"] is not network["z"]
    assert {role: [node.name for node in group] for role, group in found.network.roots.items()} == {
        role: [node.name for node in group] for role, group in network.roots.items()
    }
    assert [node.name for node in found.trained] == [node.name for node in plan.trained]
    assert (found.criterion.name, found.criterion.shape) == (plan.criterion.name, plan.criterion.shape)
    assert is_free(network["x"].shape)
