"""The update of parameters as part of a traced function."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from cntk_core.api import Parameter, Plan, UpdateRule
from cntk_core.api.engines import math_of
from cntk_engine_xla.lowering import Array


def apply(
    rule: UpdateRule,
    value: Array,
    gradient: Array,
    slots: Sequence[Array],
    numbers: Array,
    touched: Array | None,
) -> tuple[Array, tuple[Array, ...]]:
    """Return a parameter's new value and slots.

    Args:
        rule: what to do.
        value, gradient, slots: of the parameter; slots in the rule's order.
        numbers: of the step, float64.
        touched: the rows that change, if not all do.
    """
    shape, m = value.shape, math_of(jnp)
    if touched is not None:
        rows = (touched.shape[0], -1)
        value, gradient, slots = value.reshape(rows), gradient.reshape(rows), [slot.reshape(rows) for slot in slots]
    named = {slot.name: array for slot, array in zip(rule.slots, slots, strict=True)}
    given = {name: numbers[index].astype(value.dtype) for index, name in enumerate(rule.scalars)}
    if rule.mean_expression is not None:
        averaged = rule.mean_expression(m, value, gradient, named, given)
        given |= {name: _mean(array, value, touched) for name, array in averaged.items()}
    new_value, new_slots = rule.expression(m, value, gradient, named, given)
    results = [new_value, *(new_slots[slot.name] for slot in rule.slots)]
    if touched is not None:
        olds = [value, *slots]
        results = [jnp.where(touched[:, None], new, old) for new, old in zip(results, olds, strict=True)]
    new_value, *others = (result.astype(value.dtype).reshape(shape) for result in results)
    return new_value, tuple(others)


def _mean(array: Array, like: Array, touched: Array | None) -> Array:
    """The mean over the elements that change, summed in double precision; of none nobody will use it."""
    wide = jnp.broadcast_to(array, like.shape).astype(jnp.float64)
    if not like.size:
        return jnp.ones((), like.dtype)
    if touched is None:
        return jnp.mean(wide).astype(like.dtype)
    count = jnp.sum(touched) * like.shape[1]
    total = jnp.sum(jnp.where(touched[:, None], wide, 0.0))
    return jnp.where(count > 0, total / jnp.maximum(count, 1), 1.0).astype(like.dtype)


def updates_rows(plan: Plan, rule: UpdateRule) -> tuple[Parameter, ...]:
    """The parameters of which only the touched rows change."""
    return () if rule.everywhere else tuple(plan.sparse)
