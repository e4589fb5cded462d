"""XlaEngine: makes programs, and says what JAX found on this machine."""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cntk_core.api import (
    Available,
    ExecutionEngine,
    ParameterStore,
    Plan,
    Unavailable,
    UpdateRule,
    option,
    options,
)
from cntk_engine_xla.program import XlaProgram


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
        """Say which JAX is here, and on which devices it computes."""
        if importlib.util.find_spec("jax") is None:
            return Unavailable("JAX is not installed", 'pip install "cntk-engine-xla"')
        import jax

        try:
            devices = jax.devices()
        except RuntimeError as error:
            return Unavailable(f"JAX {version('jax')} finds no device: {error}", "Set JAX_PLATFORMS=cpu.")
        return Available(f"JAX {version('jax')} on {', '.join(str(device) for device in devices)}")

    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> XlaProgram:
        """Make a program of a plan."""
        _keep_compiled(self.settings.xla_cache)
        return XlaProgram(plan, store, rule, seed)


def _keep_compiled(folder: str) -> None:
    """Have JAX keep what it compiles on disk, unless the process has its own settings for that."""
    import jax

    config: Any = jax.config
    if folder.lower() == "none" or config.jax_compilation_cache_dir is not None:
        return
    if folder.lower() == "auto":
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = str(Path(base) / "cntk" / "xla")
    config.update("jax_compilation_cache_dir", folder)
    config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
