"""The contract of rules for numbers by epoch.

A plugin's test file subclasses :class:`ScheduleContract`::

    class TestHalving(ScheduleContract):
        schedule_class = Halving
        block = "start = 0.1 ; every = 2"
        expected = (0.1, 0.1, 0.05, 0.05)
"""

from __future__ import annotations

import math
from typing import ClassVar

from cntk_core.config import parse_text
from cntk_core.contract.schedule import EpochSchedule
from cntk_testing.contract import Contract, check_component


class ScheduleContract(Contract):
    """Tests of a rule for pytest: subclass it.

    Attributes:
        schedule_class: what is tested.
        block: its options as a recipe writes them, without ``type``.
        expected: the values of the first epochs of a training of as many epochs.
    """

    schedule_class: ClassVar[type[EpochSchedule]]
    block: ClassVar[str] = ""
    expected: ClassVar[tuple[float, ...]]

    def rule(self) -> EpochSchedule:
        """Return the rule with the options of the block."""
        config = parse_text(f"rate = [ type = contract ; {self.block} ]").section("rate")
        return self.schedule_class(self.schedule_class.configure(config, "schedule 'contract'"))

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written."""
        check_component(self.schedule_class)

    def test_values(self) -> None:
        """The values are those that were worked out by hand."""
        rule, epochs = self.rule(), len(self.expected)
        found = [rule.value(epoch, epochs) for epoch in range(epochs)]
        wrong = [
            f"epoch {epoch + 1}: {value!r}, not {wanted!r}"
            for epoch, (value, wanted) in enumerate(zip(found, self.expected, strict=True))
            if not math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)
        ]
        assert not wrong, "; ".join(wrong)

    def test_a_value_does_not_depend_on_those_before(self) -> None:
        """Asked for in another order, and by another instance, the values are the same: trainings are resumed."""
        epochs = len(self.expected)
        forward, backward = self.rule(), self.rule()
        there = [forward.value(epoch, epochs) for epoch in range(epochs)]
        back = [backward.value(epoch, epochs) for epoch in reversed(range(epochs))][::-1]
        assert there == back, "a value depends on what was asked for before: it must follow from its arguments alone"

    def test_every_length_of_training(self) -> None:
        """There is a finite number for each epoch of trainings of one, two and many epochs."""
        rule = self.rule()
        for epochs in (1, 2, 100):
            for epoch in range(epochs):
                value = rule.value(epoch, epochs)
                assert isinstance(value, int | float), f"epoch {epoch + 1} of {epochs} gives {value!r}"
                assert math.isfinite(value), f"epoch {epoch + 1} of {epochs} gives {value!r}"
