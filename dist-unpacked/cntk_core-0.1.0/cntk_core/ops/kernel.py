"""Kernels: how one engine computes one op. Engines' own and those of other wheels are made and found alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from cntk_core.ops.language.op import Op
from cntk_core.ops.table import core_op


@attrs.frozen(eq=False)
class Kernel:
    """How an engine computes an op, instead of by the op's own functions.

    What ``forward`` and ``gradient`` are given and return is the engine's to say; its page does. A kernel is for an op,
    not for a name: another wheel's op of the same name is another op.

    Attributes:
        engine: its name, as a recipe writes it (``xla``).
        op: what is computed.
        forward: computes the value, or makes what does.
        gradient: the same for the gradients; None if none flow, or if the engine finds them another way.
        settings: further things that the engine asks for, by name.
    """

    engine: str
    op: Op
    forward: Callable[..., Any]
    gradient: Callable[..., Any] | None = None
    settings: Mapping[str, Any] = attrs.field(factory=dict)


def kernel(
    engine: str, op: Op | str, *, gradient: Callable[..., Any] | None = None, **settings: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of the function that computes the value.

    Args:
        engine: the engine's name.
        op: the op, or the name of one of the core's.
        gradient: computes the gradients.
        settings: further things that the engine asks for.

    Raises:
        PluginError: the core has no such op.
    """
    found = core_op(op) if isinstance(op, str) else op

    def make(forward: Callable[..., Any]) -> Kernel:
        return Kernel(engine.casefold(), found, forward, gradient, settings)

    return make


def kernels(
    engine: str,
    ops: Iterable[Op | str],
    forward: Callable[..., Any],
    gradient: Callable[..., Any] | None = None,
    **settings: Any,
) -> tuple[Kernel, ...]:
    """Make the same kernel for several ops; as :func:`kernel`."""
    return tuple(kernel(engine, op, gradient=gradient, **settings)(forward) for op in ops)
