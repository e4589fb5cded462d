"""The contract of a learner: its rule is one element-wise expression.

A plugin's test file gives the learner::

    class TestLion(LearnerContract):
        learner_class = Lion

or, for a learner with options, a fixture ``learner``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.interfaces.learner import Learner, UpdateContext
from cntk_core.ops.expression import ArrayMath, Expr, TraceMath, symbol
from cntk_core.testing.contract import Contract, check_component
from cntk_core.testing.op_contract import compute

CONTEXTS = (
    UpdateContext(samples=32, learning_rate=0.01, momentum=0.9),
    UpdateContext(samples=1, learning_rate=0.5, momentum=0.0, step=1),
    UpdateContext(samples=256, learning_rate=1e-4, momentum=0.5, step=1000, epoch=7),
    UpdateContext(samples=7, learning_rate=0.0, momentum=0.9, step=3),
)
"""Steps of different kinds: the first, one sample, a late one, a rate of 0."""

Array = NDArray[Any]
Result = tuple[Array, dict[str, Array]]


def run_rule(
    learner: Learner, value: Array, gradient: Array, slots: Mapping[str, Array], context: UpdateContext
) -> Result:
    """Apply a learner's rule to arrays, and return the new value and slots as arrays of their shape."""
    new, changed = learner.rule(ArrayMath(np), value, gradient, dict(slots), learner.scalars(context))
    return np.broadcast_to(new, value.shape), {
        name: np.broadcast_to(slot, value.shape) for name, slot in changed.items()
    }


class LearnerContract(Contract):
    """Tests of a learner for pytest: subclass it with ``learner_class`` or a fixture ``learner``.

    Attributes:
        learner_class: the learner, made with its default options.
        follows_gradient: the first step of fresh slots goes against the gradient, element by element.
    """

    learner_class: ClassVar[type[Learner]]
    follows_gradient: ClassVar[bool] = True

    @pytest.fixture
    def learner(self) -> Learner:
        """The learner under test."""
        return self.learner_class()

    def arrays(self, learner: Learner, dtype: Any = np.float64, *, fresh: bool = False) -> Result:
        """Return a value, and slots with the gradient under the key "": all positive but value and gradient."""
        rng = np.random.default_rng(11)
        value, gradient = (rng.normal(size=(3, 5)).astype(dtype) for _ in range(2))
        slots = {
            slot.name: np.full((3, 5), slot.initial, dtype) if fresh else rng.uniform(0.1, 1, (3, 5)).astype(dtype)
            for slot in learner.slots
        }
        return value, {"": gradient, **slots}

    def step(self, learner: Learner, made: Result, context: UpdateContext) -> Result:
        """Apply the rule to what :meth:`arrays` gave."""
        value, others = made
        slots = {name: slot for name, slot in others.items() if name}
        return run_rule(learner, value, others[""], slots, context)

    def test_component(self, learner: Learner) -> None:
        """Options are an attrs class; the interface version fits."""
        check_component(type(learner))

    def test_slots_have_names_of_their_own(self, learner: Learner) -> None:
        """No two slots have the same name."""
        names = [slot.name for slot in learner.slots]
        assert len(set(names)) == len(names), f"slots with equal names: {names}"

    def test_names_of_scalars_never_change(self, learner: Learner) -> None:
        """Every step has the same scalars, finite numbers."""
        expected = tuple(learner.scalars(CONTEXTS[0]))
        for context in CONTEXTS:
            scalars = learner.scalars(context)
            assert tuple(scalars) == expected, f"scalars {tuple(scalars)} instead of {expected} at {context}"
            for name, number in scalars.items():
                assert math.isfinite(number), f"scalar '{name}' is {number} at {context}"

    def test_slots_returned_are_those_declared(self, learner: Learner) -> None:
        """The rule gives a new value to every slot, and to no other."""
        declared = {slot.name for slot in learner.slots}
        for context in CONTEXTS:
            _, slots = self.step(learner, self.arrays(learner), context)
            assert set(slots) == declared, f"the rule returns the slots {sorted(slots)} instead of {sorted(declared)}"

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_precision_is_kept(self, learner: Learner, dtype: Any) -> None:
        """Single precision stays single, double stays double."""
        for context in CONTEXTS:
            value, slots = self.step(learner, self.arrays(learner, dtype), context)
            for name, array in {"value": value, **slots}.items():
                assert array.dtype == dtype, f"the new {name} is {array.dtype} instead of {np.dtype(dtype)}"

    def test_rule_is_elementwise(self, learner: Learner) -> None:
        """Each result depends on one position only."""
        made = self.arrays(learner)
        for context in CONTEXTS:
            value, slots = self.step(learner, made, context)
            for index in np.ndindex(value.shape):
                part = made[0][index].reshape(1), {name: slot[index].reshape(1) for name, slot in made[1].items()}
                one_value, one_slots = self.step(learner, part, context)
                for name, array in {"value": value, **slots}.items():
                    one = {"value": one_value, **one_slots}[name]
                    np.testing.assert_allclose(
                        array[index], one[0], rtol=1e-12, err_msg=f"the new {name} depends on other positions"
                    )

    def test_rule_can_be_traced(self, learner: Learner) -> None:
        """Traced and then computed, the rule gives the numbers that it gives directly."""
        value, others = self.arrays(learner)
        for context in CONTEXTS:
            direct_value, direct_slots = self.step(learner, (value, others), context)
            scalars = learner.scalars(context)
            traced_value, traced_slots = learner.rule(
                TraceMath(),
                symbol("value"),
                symbol("gradient"),
                {slot.name: symbol(f"slot.{slot.name}") for slot in learner.slots},
                {name: symbol(f"scalar.{name}") for name in scalars},
            )
            numbers = {"value": value, "gradient": others[""]}
            numbers |= {f"slot.{name}": slot for name, slot in others.items() if name}
            numbers |= {f"scalar.{name}": np.asarray(number) for name, number in scalars.items()}
            for name, tree in {"value": traced_value, **traced_slots}.items():
                assert isinstance(tree, Expr | float | int), f"the new {name} is no expression but {type(tree)}"
                expected = {"value": direct_value, **direct_slots}[name]
                with np.errstate(all="ignore"):
                    found = compute(tree, numbers)
                np.testing.assert_allclose(
                    np.broadcast_to(found, value.shape), expected, rtol=1e-12, err_msg=f"the new {name}, traced"
                )

    def test_inputs_stay_as_they_are(self, learner: Learner) -> None:
        """The rule changes nothing in place, and gives the same twice: all its state is in the slots."""
        made = self.arrays(learner)
        kept = {"value": made[0].copy(), **{name: array.copy() for name, array in made[1].items()}}
        for context in CONTEXTS:
            first, second = (self.step(learner, made, context) for _ in range(2))
            for name, array in {"value": made[0], **made[1]}.items():
                np.testing.assert_array_equal(array, kept[name], err_msg=f"{name or 'gradient'} is changed in place")
            np.testing.assert_array_equal(first[0], second[0], err_msg="the rule remembers something")
            for name, slot in first[1].items():
                np.testing.assert_array_equal(slot, second[1][name], err_msg=f"the slot {name} remembers something")

    def test_rate_0_changes_nothing(self, learner: Learner) -> None:
        """From fresh slots, values stay what they are as long as the learning rate is 0."""
        value, others = self.arrays(learner, fresh=True)
        gradient, now = others[""], value
        slots = {name: slot for name, slot in others.items() if name}
        for step in range(3):
            context = UpdateContext(samples=4, learning_rate=0.0, momentum=0.5, step=step)
            now, slots = run_rule(learner, now, gradient * (step + 1), slots, context)
            np.testing.assert_array_equal(now, value, err_msg="learning rate 0 changes values")

    def test_first_step_follows_the_gradient(self, learner: Learner) -> None:
        """From fresh slots, each value goes against its gradient."""
        if not self.follows_gradient:
            pytest.skip("the learner's first step does not follow the gradient")
        value, others = self.arrays(learner, fresh=True)
        context = UpdateContext(samples=4, learning_rate=1e-3, momentum=0.5)
        new, _ = self.step(learner, (value, others), context)
        assert np.array_equal(np.sign(value - new), np.sign(others[""])), "a value does not go against its gradient"
