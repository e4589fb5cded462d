"""Compiled functions on disk: JAX reads and writes them through a cache that is verified, instead of its own.

JAX offers no place for another cache, but has an interface for one, and one function that makes it. Where a version of
JAX has neither, nothing is kept.
"""

from __future__ import annotations

import functools
import logging
import platform
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api.engines import CodeCache

logger = logging.getLogger("cntk.engine")

SETTING = "jax_compilation_cache_dir"


def cache_for(folder: str) -> CodeCache | None:
    """Return the cache of a setting ``xlaCache``: a folder, ``auto`` or ``none``."""
    if folder.lower() == "none":
        return None
    return CodeCache("xla", None if folder.lower() == "auto" else Path(folder).absolute(), title="functions")


def keep_compiled(folder: str) -> None:
    """Have JAX keep what it compiles on disk, unless the process has its own settings for that.

    Args:
        folder: as the recipe names it.
    """
    import jax

    config: Any = jax.config
    cache = cache_for(folder)
    if cache is None or config.jax_compilation_cache_dir is not None or cache.folder is None:
        return
    if not _use(cache, str(cache.folder)):
        logger.warning("compiled functions are not kept: JAX %s has another cache than is known here", jax.__version__)
        return
    config.update(SETTING, str(cache.folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    # What XLA itself would keep beside it nobody verifies.
    config.update("jax_persistent_cache_enable_xla_caches", "none")


def _use(cache: CodeCache, folder: str) -> bool:
    """Have JAX use a cache wherever it would use its own in a folder; return whether it can be told so."""
    try:
        from jax._src import compilation_cache
        from jax._src.compilation_cache_interface import CacheInterface

        others = compilation_cache.get_file_cache
    except (ImportError, AttributeError):
        return False

    class Verified(CacheInterface):
        """What JAX asks for functions that were compiled before."""

        _path = Path(folder)

        def get(self, key: str) -> bytes | None:
            """Return what was compiled under a key of JAX, None if there is nothing to be believed."""
            return cache.read(_identity(key))

        def put(self, key: str, value: bytes) -> None:
            """Keep what was compiled under a key of JAX."""
            cache.write(_identity(key), value)

    def get_file_cache(path: str) -> Any:
        return (Verified(), path) if path == folder else others(path)

    compilation_cache.get_file_cache = get_file_cache
    return True


def _identity(key: str) -> str:
    # The key is a SHA-256 of the program, the versions, the options and the device, of which it knows too little if it
    # is the processor: a home folder may be that of several machines.
    return f"JAX {_processor()} {key}"


@functools.cache
def _processor() -> str:
    """The processor and the kinds of vector instructions that it has."""
    found: Any = np.show_config(mode="dicts")
    extensions = found.get("SIMD Extensions", {})
    return " ".join([platform.machine(), *extensions.get("baseline", []), *extensions.get("found", [])])
