"""Kernels in an engine's own form, and by op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import attrs

from cntk_core.errors import PluginError, did_you_mean
from cntk_core.network.node import Node
from cntk_core.ops.kernel import Kernel
from cntk_core.ops.language.op import Op
from cntk_core.plan.plan import GradientStep, Step

R = TypeVar("R")
K = TypeVar("K")


def in_form_of(kernel: Kernel, record: type[R]) -> R:
    """Return a kernel as an engine's own record of its functions and settings.

    Args:
        kernel: of that engine.
        record: an attrs class, whose fields are ``forward``, ``gradient`` and the settings.

    Raises:
        PluginError: the kernel has a setting that the engine does not know.
    """
    made: Any = record
    known = sorted({field.name for field in attrs.fields(made)} - {"forward", "gradient"})
    unknown = sorted(set(kernel.settings) - set(known))
    if unknown:
        raise PluginError(
            f"a kernel of the engine '{kernel.engine}' for {kernel.op.name} has the unknown setting '{unknown[0]}'"
            f"{did_you_mean(unknown[0], known)}",
            hint=f"Settings: {', '.join(known)}." if known else "This engine has none.",
        )
    found: R = made(kernel.forward, kernel.gradient, **kernel.settings)
    return found


def by_op(kernels: Iterable[Kernel]) -> Mapping[Op, tuple[Kernel, ...]]:
    """Return the kernels of each op, in their order, each once."""
    found: dict[Op, dict[Kernel, None]] = {}
    for each in kernels:
        found.setdefault(each.op, {})[each] = None
    return {op: tuple(own) for op, own in found.items()}


def tables(given: Sequence[Kernel], own: Sequence[Kernel], record: type[R]) -> Mapping[Op, tuple[R, ...]]:
    """Return the kernels of each op in an engine's own form, in the order in which they are asked.

    Args:
        given: those that the run has found (``ExecutionEngine.kernels``); asked first, without the engine's own.
        own: the engine's.
        record: as for :func:`in_form_of`.

    Raises:
        PluginError: a kernel has a setting that the engine does not know.
    """
    found = by_op((*(each for each in given if each not in own), *own))
    return {op: tuple(in_form_of(each, record) for each in each_op) for op, each_op in found.items()}


def ask(
    step: Step, kernels: Mapping[Op, Sequence[K]], chosen: MutableMapping[Node, K], forward: Callable[[K], R | None]
) -> R | None:
    """Return what the first kernel gives that can compute a step; None if none can, or the step has several nodes.

    Args:
        step: what is to be computed.
        kernels: of ops, in the order in which they are asked.
        chosen: where it is noted which kernel computes a node.
        forward: asks one.
    """
    (node, *others) = step.nodes
    for kernel in () if others else kernels.get(node.op, ()):
        found = forward(kernel)
        if found is not None:
            chosen[node] = kernel
            return found
    return None


def ask_for_gradient(
    step: GradientStep, kernels: Mapping[Op, Sequence[K]], chosen: Mapping[Node, K], gradient: Callable[[K], R | None]
) -> R | None:
    """The same for gradients: the kernel that has computed the value is asked; all if the op's own functions have."""
    (node, *others) = step.step.nodes
    if others:
        return None
    own = chosen.get(node)
    for kernel in kernels.get(node.op, ()) if own is None else (own,):
        found = gradient(kernel)
        if found is not None:
            return found
    return None
