"""Which rule an op has, whatever its family."""

from __future__ import annotations

from cntk_core.ops.language.op import Op
from cntk_kit_builders.derivatives import frame_rules, image_rules, rules
from cntk_kit_builders.derivatives.registry import registered
from cntk_kit_builders.derivatives.writing import Rule

FAMILIES = (rules, image_rules, frame_rules)
"""The modules whose rules are registered when they are imported."""


def rule_of(op: Op) -> Rule | None:
    """Return the rule of an op, None if it has none."""
    found = registered(op)
    return rules.by_expression if found is None and op.elementwise is not None else found
