"""Update rules as expression trees."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cntk_core.contract.learner import UpdateRule
from cntk_core.ops.language.expression import TraceMath, symbol
from cntk_core.plan.traced import Tree


@attrs.frozen
class TracedRule:
    """What a rule makes of the names ``value``, ``gradient``, those of :meth:`slot_name`, of its scalars and its means.

    Attributes:
        value: the new value.
        slots: the new slots, by slot.
        means: what is averaged over a parameter before, by the name of the mean.
    """

    VALUE = "value"
    GRADIENT = "gradient"

    value: Tree
    slots: Mapping[str, Tree]
    means: Mapping[str, Tree] = attrs.field(factory=dict)

    @classmethod
    def of(cls, rule: UpdateRule) -> TracedRule:
        """Trace a rule."""
        slots = {slot.name: symbol(cls.slot_name(slot.name)) for slot in rule.slots}
        numbers = {name: symbol(name) for name in (*rule.scalars, *rule.means)}
        arguments = TraceMath(), symbol(cls.VALUE), symbol(cls.GRADIENT), slots, numbers
        value, new = rule.expression(*arguments)
        means = rule.mean_expression(*arguments) if rule.mean_expression is not None else {}
        return cls(value, dict(new), dict(means))

    @staticmethod
    def slot_name(name: str) -> str:
        """How a slot is called in the trees."""
        return f"slot_{name}"

    def buffers(self) -> dict[str, str]:
        """The names of the trees, each with the buffer of the store that it stands for."""
        return {self.VALUE: "values", self.GRADIENT: "gradients", **{self.slot_name(name): name for name in self.slots}}

    def results(self) -> dict[str, Tree]:
        """The trees of what is written, by the names of what they take the place of."""
        return {self.VALUE: self.value, **{self.slot_name(name): tree for name, tree in self.slots.items()}}
