"""What reductions compute, along whatever axis: values of groups of numbers, and their gradients."""

from __future__ import annotations

from typing import Any

from cntk_core.ops.language.op import Array

REDUCTIONS = ("Sum", "LogSum", "Mean", "Max", "Min", "Prod", "Argmax", "Argmin")
"""What ReduceElements can do (``Plus`` is another name of ``Sum``)."""

SMALLEST = 1e-30
"""Divisors closer to 0 are moved away from it."""

EMPTY = {"Sum": 0.0, "Mean": 0.0, "LogSum": float("-inf"), "Max": float("-inf"), "Min": float("inf"), "Prod": 1.0}
"""The reductions of no number at all; the mean has none, and is called 0."""


def reduced(xp: Any, groups: Array, operation: str) -> Array:
    """Reduce ``(outer, reduced, inner)`` along the axis in the middle, which may stay with length 1."""
    if operation == "LogSum":
        largest = xp.max(groups, axis=1, keepdims=True)
        shift = finite(xp, largest)
        return xp.log(xp.sum(xp.exp(groups - shift), axis=1, keepdims=True)) + shift
    if operation in ("Argmax", "Argmin"):
        find = xp.argmax if operation == "Argmax" else xp.argmin
        return find(groups, axis=1).astype(groups.dtype)
    function = {"Sum": xp.sum, "Mean": xp.mean, "Max": xp.max, "Min": xp.min, "Prod": xp.prod}[operation]
    return function(groups, axis=1)


def finite(xp: Any, largest: Array) -> Array:
    """Return what sums of exponentials are shifted by, of the shape of ``largest``.

    Infinities and NaN are left to the sums, and give what they should.
    """
    return xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))


def slope(xp: Any, operation: str, g: Array, y: Array, x: Array, count: Any) -> Array:
    """Return the gradient of what is reduced, of the shape of ``x``.

    Args:
        xp: the array module.
        operation: one of :data:`REDUCTIONS`.
        g: the gradient of the value, broadcast to ``x``.
        y: the value, broadcast in the same way.
        x: what is reduced.
        count: how many numbers become one.
    """
    if operation == "Sum":
        return xp.broadcast_to(g, x.shape)
    if operation == "Mean":
        return xp.broadcast_to(g / count, x.shape)
    if operation == "LogSum":
        return g * xp.exp(x - y)
    if operation == "Prod":
        floor = xp.where(x > 0, SMALLEST, -SMALLEST).astype(x.dtype)
        return g * (y / xp.where(xp.abs(x) < SMALLEST, floor, x))
    if operation in ("Max", "Min"):
        return xp.where(x == y, g, xp.zeros_like(g))
    return xp.zeros_like(x)
