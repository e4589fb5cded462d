"""``cntk doctor``: what works on this machine, and the one line that mends what does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import attrs

import cntk_core
from cntk_core.contract.component import Unavailable
from cntk_core.contract.parallel import Communicator
from cntk_core.errors import CntkError, PluginError

if TYPE_CHECKING:
    from cntk_core.contract.cache import Cache
    from cntk_core.plugins.manager import PluginManager

_EXTRAS = (("matplotlib", "learning curves", 'pip install "cntk-core[plot]"'),)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_COMPILING = ("engine", "reader", "aggregation")
"""Kinds of components that may compile."""


@attrs.frozen
class Finding:
    """One thing that was looked at.

    Attributes:
        state: ``ok``, ``missing`` (something further would be possible) or ``broken``.
        name: what was looked at.
        detail: what was found.
        mend: the line that mends it.
    """

    state: Literal["ok", "missing", "broken"]
    name: str
    detail: str = ""
    mend: str = ""


_MARKS = {"ok": "ok", "missing": "--", "broken": "!!"}


_SCHEMA = 1
"""Version of what ``--json`` prints: further keys do not change it."""


def doctor(*, plugin_files: Sequence[str] = (), as_json: bool = False) -> int:
    """Print all findings. Return 0 if recipes can be trained here, else 1.

    Args:
        plugin_files: further plugins.
        as_json: for programs, as docs/command-line.md describes it.
    """
    from cntk_core.plugins.manager import PluginManager

    manager = PluginManager(plugin_files=plugin_files)
    sections = {
        "machine": list(machine()),
        "engines": list(components(manager, "engine")),
        "numbers": list(numbers()),
        "compiled code": list(compiled_code(manager)),
        "plugins": [finding for word in ("builder", "reader", "learner") for finding in components(manager, word)],
        "several processes": list(ranks(manager)),
        "GPU": list(gpu(manager)),
        "pictures": list(extras()),
    }
    usable = any(finding.state == "ok" for finding in sections["engines"])
    if as_json:
        print(_as_json(sections, usable))
        return 0 if usable else 1
    for title, findings in sections.items():
        print(f"{title}")
        for finding in findings:
            print("\n".join(_lines(finding)))
    print(f"\n{'Recipes can be trained here.' if usable else 'No recipe can be trained here: there is no engine.'}")
    return 0 if usable else 1


def _as_json(sections: Mapping[str, Sequence[Finding]], usable: bool) -> str:
    import json

    findings = [{"section": title, **attrs.asdict(one)} for title, found in sections.items() for one in found]
    return json.dumps({"schema": _SCHEMA, "usable": usable, "findings": findings}, indent=2)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {_MARKS[finding.state]}  {finding.name:33} {finding.detail}".rstrip()
    yield from (f"      {line}" for line in finding.mend.splitlines())


def machine() -> Iterator[Finding]:
    """Python, the processor, memory."""
    yield Finding(
        "ok", "cntk-core", f"{cntk_core.__version__}, Python {platform.python_version()} on {platform.platform()}"
    )
    yield Finding("ok", "processors", f"{usable_processors()} of {os.cpu_count()} may be used")
    memory = _memory()
    if memory:
        yield Finding("ok", "memory", f"{memory / 2**30:.1f} GiB")
    limits = [f"{name}={os.environ[name]}" for name in _THREAD_VARIABLES if name in os.environ]
    if limits:
        yield Finding("ok", "limits on threads", ", ".join(limits))


def usable_processors() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def components(manager: PluginManager, word: str) -> Iterator[Finding]:
    """The components of one kind, with why one of them cannot be used."""
    offers = manager.registry.table(word).offers()
    if not offers:
        yield Finding("broken", f"no {word} is installed", mend="pip install cntk-toolkit")
    for offer in offers:
        answer = offer.availability()
        name = f"{word} {offer.name}"
        if isinstance(answer, PluginError):
            yield Finding("broken", name, f"{offer.source}: {answer.message}", answer.hint or "")
        elif isinstance(answer, Unavailable):
            yield Finding("missing", name, f"{offer.source}: {answer.reason}", answer.hint)
        else:
            detail = f": {answer.detail}" if answer.detail else ""
            yield Finding("ok", name, f"{offer.source}{detail}")


def numbers() -> Iterator[Finding]:
    """The libraries that compute."""
    import numpy as np

    build = np.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas", {}) if isinstance(build, dict) else {}
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    yield Finding("ok", "NumPy", f"{np.__version__}, BLAS: {name}")
    for package, what in (("scipy", "SciPy"), ("llvmlite", "LLVM")):
        found = _version(package)
        if found:
            yield Finding("ok", what, found)
        else:
            yield Finding(
                "missing", what, "not installed; element-wise steps run unfused", 'pip install "cntk-engine-cpu[llvm]"'
            )
    if find_spec("cffi") and _version("onednn-cpu-gomp"):
        yield Finding("ok", "oneDNN", _version("onednn-cpu-gomp"))
    elif sys.platform == "linux" and platform.machine() == "x86_64":
        yield Finding(
            "missing", "oneDNN", "not installed; products run on NumPy's BLAS", 'pip install "cntk-engine-cpu[onednn]"'
        )


def compiled_code(manager: PluginManager) -> Iterator[Finding]:
    """What components keep on disk of what they have compiled."""
    for cache, owners in caches(manager):
        state = cache.state()
        detail = f"{state.folder}: {state.entries} entries, {size_text(state.size)} of {size_text(state.limit)}"
        if state.damaged:
            detail += f"; {state.damaged} damaged, which are compiled anew"
        if state.problem:
            detail = f"not kept: {state.problem}"
        detail += f" ({', '.join(owners)})"
        yield Finding("missing" if state.problem else "ok", cache.title, detail, state.mend)


def caches(manager: PluginManager) -> list[tuple[Cache, list[str]]]:
    """The caches of all components that can be loaded, each once, and whose they are."""
    found: dict[int, tuple[Cache, list[str]]] = {}
    for word in _COMPILING:
        for offer in manager.registry.table(word).offers():
            component = offer.outcome()
            if not isinstance(component, PluginError):
                for cache in component.caches():
                    found.setdefault(id(cache), (cache, []))[1].append(f"{word} {offer.name}")
    return list(found.values())


def clear_caches(*, plugin_files: Sequence[str] = ()) -> int:
    """Remove all entries and say how many there were. Return 1 if one cannot be removed."""
    from cntk_core.plugins.manager import PluginManager

    failed = 0
    for cache, owners in caches(PluginManager(plugin_files=plugin_files)):
        name, state = f"{cache.title} ({', '.join(owners)})", cache.state()
        try:
            print(f"{name}: removed {cache.clear()} entries ({size_text(state.size)}) from {state.folder}")
        except OSError as error:
            print(f"{name}: cannot be removed from {state.folder}: {error.strerror}", file=sys.stderr)
            failed = 1
    return failed


def size_text(size: int) -> str:
    """Bytes in a form for people."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{-(-size // 2**10)} KiB"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def ranks(manager: PluginManager) -> Iterator[Finding]:
    """What several ranks need: strategies, aggregations, communicators, and what starts them with ``cntk -n``."""
    for word in ("parallelizer", "aggregation", "communicator"):
        yield from components(manager, word)
    for offer in manager.registry.communicators.offers():
        try:
            communicator = manager.registry.communicators.get(offer.name)
            if communicator.launcher.__func__ is Communicator.launcher.__func__:  # type: ignore[attr-defined]
                continue  # it starts nothing
            launcher = communicator.launcher(2)
        except PluginError:
            continue  # that it cannot run is said above
        except CntkError as error:
            yield Finding("missing", f"launcher of '{offer.name}'", error.message, error.hint or "")
        else:
            yield Finding("ok", f"launcher of '{offer.name}'", f"{launcher.command[0]} ({launcher.title})")


def gpu(manager: PluginManager) -> Iterator[Finding]:
    """Whether there is a GPU, and which engine computes on it."""
    there = shutil.which("nvidia-smi") is not None
    yield Finding("ok" if there else "missing", "NVIDIA driver", "" if there else "not found (no nvidia-smi)")
    for name in manager.registry.engines.usable():
        for device in manager.registry.engines.get(name).devices():
            yield Finding("ok", f"deviceId={device}", f"engine '{name}'")


def extras() -> Iterator[Finding]:
    """What pictures and the demo need."""
    for module, what, mend in _EXTRAS:
        there = find_spec(module) is not None
        yield Finding(
            "ok" if there else "missing",
            module,
            what if there else f"not installed; it is needed for {what}",
            "" if there else mend,
        )
