"""Where values live: on the device until somebody asks, whoever that is, and whatever he does to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api.engines import make_plan
from cntk_testing.engine_contract import MOMENTUM, Run, start
from cntk_testing.networks import classifier, multipliers
from cntk_testing.reference import ReferenceEngine

SIZES = (10, 9, 10, 10)


@pytest.fixture
def engine():
    return XlaEngine(XlaEngine.options(xla_cache="none"))


def _train(run: Run, meddle: Callable[[Run, int], None] = lambda run, step: None) -> None:
    for step, frames in enumerate(SIZES):
        run.program.train_step(run.sample.minibatch(frames, step), run.scalars(MOMENTUM, step))
        meddle(run, step)


def _halve_a_value(run: Run, step: int) -> None:
    run.store.value(run.plan.trained[step % 2])[...] *= 0.5


def _set_by_the_network(run: Run, step: int) -> None:
    value = run.plan.trained[0].value
    assert value is not None
    value += 0.125


def _add_to_all(run: Run, step: int) -> None:
    run.store.values += 0.25


def _clear_slots(run: Run, step: int) -> None:
    if step == 1:
        run.store.reset_slots()


def _roll_back(run: Run, step: int) -> None:
    """What a training does whose criterion has become worse."""
    if step == 0:
        run.sample.settings["kept"] = run.store.snapshot()
    if step == 2:
        run.store.restore(run.sample.settings.pop("kept"))


@pytest.mark.parametrize("meddle", [_halve_a_value, _set_by_the_network, _add_to_all, _clear_slots, _roll_back])
def test_what_others_write_between_steps_counts(engine, meddle):
    """Compared parameter by parameter and slot by slot with the reference, which has no place of its own for them."""
    ours, reference = (start(each, classifier("float64"), rule=MOMENTUM) for each in (engine, ReferenceEngine()))
    for run in (ours, reference):
        _train(run, meddle)
    for mine, other in zip(ours.plan.trained, reference.plan.trained, strict=True):
        for name, array in ((mine.name, ours.store.value(mine)), ("smoothed", ours.store.slot("smoothed", mine))):
            wanted = reference.store.value(other) if name == mine.name else reference.store.slot("smoothed", other)
            np.testing.assert_allclose(array, wanted, rtol=1e-11, atol=1e-12, err_msg=name)


def test_the_store_has_the_values_when_somebody_asks_and_not_before(engine):
    run = start(engine, classifier("float64"), rule=MOMENTUM)
    before = run.values()
    _train(run)
    assert run.store.holder is not None
    stale = run.store.raw("values")["values"].copy()
    np.testing.assert_array_equal(stale, np.concatenate([_padded(value) for value in before]))
    assert run.program.memory() > 0
    assert any((after != old).any() for after, old in zip(run.values(), before, strict=True))
    assert run.program.memory() == 0


def _padded(value: np.ndarray) -> np.ndarray:
    """A parameter as it lies in the store."""
    return np.pad(value.reshape(-1), (0, -value.size % 8))


def test_asking_for_gradients_does_not_move_values(engine):
    run = start(engine, classifier("float64"), rule=MOMENTUM)
    _train(run)
    held = run.program.memory()
    assert held > 0
    assert not run.store.gradients.any()
    assert run.program.memory() == held


def test_parameters_that_are_not_learned_come_back_as_they_were(engine):
    run = start(engine, multipliers("float64"), rule=MOMENTUM)
    fixed = [parameter for parameter in run.store.parameters if parameter not in run.plan.trained]
    before = [run.store.value(parameter).copy() for parameter in fixed]
    _train(run)
    assert fixed
    for parameter, value in zip(fixed, before, strict=True):
        np.testing.assert_array_equal(run.store.value(parameter), value)


def test_programs_of_several_engines_take_turns_on_a_store(engine):
    """Each step is done by another program; slots go from one to the next as values do."""
    values = []
    for kinds in ([ReferenceEngine()] * 4, [engine, ReferenceEngine(), engine, engine]):
        run = start(kinds[0], classifier("float64"), rule=MOMENTUM)
        programs = [kind.compile(run.plan, run.store, MOMENTUM) for kind in kinds]
        watch = kinds[0].compile(make_plan(run.sample.network, run.sample.roots), run.store)
        for step, program in enumerate([*programs, *programs]):
            program.train_step(run.sample.minibatch(10, step), run.scalars(MOMENTUM, step))
            watch.evaluate(run.sample.minibatch(10, 99))
        values.append([*run.values(), watch.value(run.sample.roots[0].name)])
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_numbers_of_a_step_that_the_caller_changes_in_place(engine):
    """A learner may give the same mappings in each step with other numbers in them."""
    values = []
    for each in (engine, ReferenceEngine()):
        run = start(each, classifier("float64"), rule=MOMENTUM)
        scalars = run.scalars(MOMENTUM)
        for step in range(3):
            for mapping in scalars:
                mapping["rate"] = 0.1 / (1 + step)
            run.program.train_step(run.sample.minibatch(10, step), scalars)
        values.append(run.values())
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_totals_of_device_and_host():
    from cntk_engine_xla.totals import Totals

    sketch = classifier("float64")
    roots = sketch.roots
    totals = Totals(roots, {roots[-1]})
    totals.write({node.name: 1.5 for node in roots})
    lent = totals.lend()
    assert not isinstance(lent, np.ndarray)
    totals.array = lent + 1.0
    totals.add(roots[-1], 4.0)
    found = totals.read()
    assert found == {**{node.name: 2.5 for node in roots}, roots[-1].name: 5.5}
