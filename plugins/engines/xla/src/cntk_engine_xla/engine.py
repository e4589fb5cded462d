"""XlaEngine: makes programs, and says which JAX is here.

This module and :mod:`kept` do without JAX until something is compiled; all others, which import it, are loaded then.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from cntk_core.api import (
    Available,
    Cache,
    ExecutionEngine,
    ParameterStore,
    Plan,
    PluginUnavailableError,
    Unavailable,
    UpdateRule,
    option,
    options,
)
from cntk_core.api.engines import AnyStep, compiles
from cntk_engine_xla.kept import cache_for, keep_compiled

if TYPE_CHECKING:
    from cntk_engine_xla.program import XlaProgram
    from cntk_engine_xla.table import Lowerings


@options
class XlaOptions:
    """Keys of the recipe that the XLA engine reads."""

    xla_cache: str = option(
        default="auto",
        doc="folder in which compiled functions are kept from run to run; auto is one below the user's cache folder, "
        "none keeps nothing",
    )


class XlaEngine(ExecutionEngine):
    """Hands whole plans to XLA: forward, gradients and update as one function, where every op has a lowering."""

    options = XlaOptions
    requires_api = "1.0"

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Say which JAX is here.

        JAX is not started for that, as all engines are asked in every run: it takes time, threads, and the memory of
        GPUs.
        """
        if any(importlib.util.find_spec(name) is None for name in ("jax", "jaxlib")):
            return Unavailable("JAX is not installed", 'pip install "cntk-engine-xla"')
        platforms = os.environ.get("JAX_PLATFORMS") or "the device that JAX finds"
        return Available(f"JAX {version('jax')} on {platforms}")

    @classmethod
    def caches(cls) -> Sequence[Cache]:
        """Return the folder of compiled functions that a recipe has which names none."""
        found = cache_for(cls.options().xla_cache)
        return () if found is None else (found,)

    def on_host(self, plan: Plan) -> frozenset[AnyStep]:
        """Return the steps of a plan whose ops have no form for XLA."""
        if isinstance(self.availability(), Unavailable):
            return frozenset()
        from cntk_engine_xla.units import hosted_steps

        return hosted_steps(plan, self._lowerings)

    @functools.cached_property
    def _lowerings(self) -> Lowerings:
        from cntk_engine_xla.table import Lowerings

        return Lowerings(self.kernels)

    @compiles
    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> XlaProgram:
        """Make a program of a plan.

        Raises:
            PluginUnavailableError: JAX finds no device.
        """
        _check_device()
        keep_compiled(self.settings.xla_cache)
        from cntk_engine_xla.program import XlaProgram

        return XlaProgram(plan, store, rule, seed, self._lowerings)


def _check_device() -> None:
    import jax

    try:
        jax.devices()
    except RuntimeError as error:
        message = f"the engine 'xla' cannot run here: JAX {version('jax')} finds no device: {error}"
        raise PluginUnavailableError(message, hint="Set JAX_PLATFORMS=cpu.") from None
