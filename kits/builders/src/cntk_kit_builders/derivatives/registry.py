"""Where rules stand: how ops write their gradients as nodes, by record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.ops.language.op import Op
from cntk_core.ops.table import core_op
from cntk_kit_builders.derivatives.writing import Rule, Term

_RULES: dict[Op, Rule] = {}

Gradients = Sequence[Term | None]


def derivative_rule(*ops: Op | str) -> Callable[[Rule], Rule]:
    """Register how ops write their gradients as nodes, a decorator; for ops of plugins, too.

    Args:
        ops: records, or names of the core's.

    Raises:
        PluginError: the core has no such op.
    """

    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys([core_op(op) if isinstance(op, str) else op for op in ops], rule))
        return rule

    return register


def registered(op: Op) -> Rule | None:
    """Return the rule that was registered for an op; its forms have the same."""
    if op in _RULES or op.form is None:
        return _RULES.get(op)
    return next((rule for known, rule in _RULES.items() if known.form is op.form), None)
