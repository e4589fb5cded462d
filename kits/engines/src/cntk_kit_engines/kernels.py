"""Kernels in an engine's own form, and by op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
