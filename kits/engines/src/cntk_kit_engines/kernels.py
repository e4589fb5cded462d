"""Kernels in an engine's own form, and by op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from cntk_core.errors import PluginError, did_you_mean
from cntk_core.ops.kernel import Kernel
from cntk_core.ops.language.op import Op

R = TypeVar("R")


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
