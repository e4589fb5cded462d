"""The contract of a learner: its rule is one element-wise expression.

A plugin's test file gives the learner::

    class TestLion(LearnerContract):
        learner_class = Lion
        recipe = README                 # its first recipe with gradUpdateType is run too

or, for a learner with options, a fixture ``learner``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.ops.language.expression import ArrayMath, Expr, TraceMath, symbol
from cntk_testing.contract import check_component
from cntk_testing.op_contract import compute
from cntk_testing.recipes import RecipeContract

CONTEXTS = (
    UpdateContext(samples=32, learning_rate=0.01, momentum=0.9),
    UpdateContext(samples=1, learning_rate=0.5, momentum=0.0, step=1),
    UpdateContext(samples=256, learning_rate=1e-4, momentum=0.5, step=1000, epoch=7),
    UpdateContext(samples=7, learning_rate=0.0, momentum=0.9, step=3),
)
"""Steps of different kinds: the first, one sample, a late one, a rate of 0."""

Array = NDArray[Any]
Result = tuple[Array, dict[str, Array]]


def scalars_of(learner: Learner, context: UpdateContext, steps: int = 1) -> dict[str, float]:
    """Return a learner's scalars in a step, after ``steps - 1`` others like it."""
    state: Mapping[str, float] = {slot.name: slot.initial for slot in learner.state}
    for _ in range(steps):
        state = learner.advance(attrs.evolve(context, state=state))
    return dict(learner.scalars(attrs.evolve(context, state=state)))


def run_rule(
    learner: Learner,
    value: Array,
    gradient: Array,
    slots: Mapping[str, Array],
    scalars: Mapping[str, float],
    means: Mapping[str, float] | None = None,
) -> Result:
    """Apply a learner's rule to arrays, and return the new value and slots as arrays of their shape.

    Args:
        learner: the learner.
        value, gradient, slots: one parameter.
        scalars: those of the step.
        means: the means that the rule needs, if they are not those over these arrays.
    """
    arguments = ArrayMath(np), value, gradient, dict(slots)
    if means is None:
        means = means_of(learner, value, gradient, slots, scalars)
    new, changed = learner.rule(*arguments, {**scalars, **means})
    return np.broadcast_to(new, value.shape), {
        name: np.broadcast_to(slot, value.shape) for name, slot in changed.items()
    }


def means_of(
    learner: Learner, value: Array, gradient: Array, slots: Mapping[str, Array], scalars: Mapping[str, float]
) -> dict[str, float]:
    """The means over a parameter that a learner's rule needs."""
    found = learner.means(ArrayMath(np), value, gradient, dict(slots), scalars)
    return {name: float(np.mean(np.broadcast_to(array, value.shape))) for name, array in found.items()}


class LearnerContract(RecipeContract):
    """Tests of a learner for pytest: subclass it with ``learner_class`` or a fixture ``learner``.

    Attributes:
        learner_class: the learner, made with its default options.
        follows_gradient: the first step of fresh slots goes against the gradient, element by element.
    """

    recipe_key: ClassVar[str] = "gradUpdateType"
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

    def step(
        self, learner: Learner, made: Result, context: UpdateContext, means: Mapping[str, float] | None = None
    ) -> Result:
        """Apply the rule to what :meth:`arrays` gave."""
        value, others = made
        slots = {name: slot for name, slot in others.items() if name}
        return run_rule(learner, value, others[""], slots, scalars_of(learner, context), means)

    def test_component(self, learner: Learner) -> None:
        """Options are an attrs class; the interface version fits."""
        check_component(type(learner))

    def test_slots_have_names_of_their_own(self, learner: Learner) -> None:
        """No two slots have the same name."""
        names = [slot.name for slot in learner.slots]
        assert len(set(names)) == len(names), f"slots with equal names: {names}"

    def test_names_of_scalars_never_change(self, learner: Learner) -> None:
        """Every step has the same scalars, finite numbers."""
        expected = tuple(scalars_of(learner, CONTEXTS[0]))
        for context, steps in itertools.product(CONTEXTS, (1, 2, 1000)):
            scalars = scalars_of(learner, context, steps)
            assert tuple(scalars) == expected, f"scalars {tuple(scalars)} instead of {expected} at {context}"
            for name, number in scalars.items():
                assert math.isfinite(number), f"scalar '{name}' is {number} at {context}"

    def test_state_advances_by_its_names(self, learner: Learner) -> None:
        """The state has the same names in every step, finite numbers; it changes only when it is told to."""
        declared = {slot.name for slot in learner.state}
        state: Mapping[str, float] = {slot.name: slot.initial for slot in learner.state}
        for context in CONTEXTS:
            before = dict(state)
            now = attrs.evolve(context, state=state)
            new = dict(learner.advance(now))
            assert dict(learner.advance(now)) == new, "advance remembers something"
            assert dict(state) == before, "advance changes the state that it is given"
            assert set(new) == declared, f"the state has {sorted(new)} instead of {sorted(declared)}"
            assert all(math.isfinite(number) for number in new.values()), f"the state is {new} at {context}"
            state = new

    def test_means_have_names_of_their_own(self, learner: Learner) -> None:
        """The means are the same in every step, and no scalar has the name of one."""
        value, others = self.arrays(learner)
        slots = {name: slot for name, slot in others.items() if name}
        names = []
        for context in CONTEXTS:
            scalars = scalars_of(learner, context)
            means = means_of(learner, value, others[""], slots, scalars)
            assert not set(means) & set(scalars), f"both a mean and a scalar: {sorted(set(means) & set(scalars))}"
            assert all(math.isfinite(mean) for mean in means.values()), f"the means are {means} at {context}"
            names.append(tuple(means))
        assert len(set(names)) == 1, f"the names of means change: {names}"

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
        """Each result depends on one position only, and on the means."""
        made = self.arrays(learner)
        given = {name: slot for name, slot in made[1].items() if name}
        for context in CONTEXTS:
            means = means_of(learner, made[0], made[1][""], given, scalars_of(learner, context))
            value, slots = self.step(learner, made, context)
            for index in np.ndindex(value.shape):
                part = made[0][index].reshape(1), {name: slot[index].reshape(1) for name, slot in made[1].items()}
                one_value, one_slots = self.step(learner, part, context, means)
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
            scalars = scalars_of(learner, context)
            arguments = (
                TraceMath(),
                symbol("value"),
                symbol("gradient"),
                {slot.name: symbol(f"slot.{slot.name}") for slot in learner.slots},
            )
            symbols = {name: symbol(f"scalar.{name}") for name in scalars}
            numbers = {"value": value, "gradient": others[""]}
            numbers |= {f"slot.{name}": slot for name, slot in others.items() if name}
            numbers |= {f"scalar.{name}": np.asarray(number) for name, number in scalars.items()}
            for name, tree in learner.means(*arguments, symbols).items():
                mean = np.mean(np.broadcast_to(compute(tree, numbers), value.shape))
                numbers[f"scalar.{name}"] = np.asarray(mean)
                symbols[name] = symbol(f"scalar.{name}")
            traced_value, traced_slots = learner.rule(*arguments, symbols)
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
            now, slots = run_rule(learner, now, gradient * (step + 1), slots, scalars_of(learner, context, step + 1))
            np.testing.assert_array_equal(now, value, err_msg="learning rate 0 changes values")

    def test_first_step_follows_the_gradient(self, learner: Learner) -> None:
        """From fresh slots, each value goes against its gradient."""
        if not self.follows_gradient:
            pytest.skip("the learner's first step does not follow the gradient")
        value, others = self.arrays(learner, fresh=True)
        context = UpdateContext(samples=4, learning_rate=1e-3, momentum=0.5)
        new, _ = self.step(learner, (value, others), context)
        assert np.array_equal(np.sign(value - new), np.sign(others[""])), "a value does not go against its gradient"
