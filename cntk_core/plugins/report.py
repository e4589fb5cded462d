"""``cntk plugins``: what is there, from which wheel, and why something is not usable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from cntk_core.contract.component import Unavailable
from cntk_core.errors import IncompatiblePluginError, PluginError
from cntk_core.plugins.discovery import CORE_WHEEL
from cntk_core.plugins.known import known
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.offer import ComponentOffer, HooksOffer
from cntk_core.plugins.registry import ComponentTable
from cntk_core.plugins.third_party_kernels import Kernels, KernelsOffer
from cntk_core.plugins.third_party_ops import Operations, OpsOffer

STATES = ("installed", "usable", "unavailable", "incompatible", "broken", "ambiguous", "not installed", "planned")
"""``installed``: nothing was loaded, so nothing else is known. ``planned``: a wheel of ours that is not released."""


@attrs.frozen
class PluginRecord:
    """One row of the table.

    Attributes:
        kind: ``engine``, ``builder``, ``reader``, ``writer``, ``learner``, ``parallelizer``, ``aggregation``,
            ``communicator``, ``action``, ``verb``, ``model format``, ``ops``, ``kernels``, ``hooks``.
        name: what a recipe writes.
        wheel: distribution name, or the path of a file.
        version: of the wheel; empty for a file and for what is not installed.
        state: one of :data:`STATES`.
        reason: why it is not usable.
        mend: the lines that mend it.
    """

    kind: str
    name: str
    wheel: str
    version: str
    state: str
    reason: str = ""
    mend: str = ""


def list_plugins(
    plugin_files: Sequence[str] = (), *, check: bool = False, discover: bool = True, core: bool = False
) -> list[PluginRecord]:
    """Return a record for everything that is installed, and for wheels of ours that are not.

    Args:
        plugin_files: one-off plugins; they are loaded.
        check: load everything that is installed and ask whether it can run here. Without it nothing is imported.
        discover: look for installed wheels.
        core: also what the core's own wheel offers (actions, verbs, model formats).
    """
    manager = PluginManager(plugin_files, discover=discover, load_hooks=check, report=lambda text: None)
    records: list[PluginRecord] = []
    for table in manager.registry.tables:
        records += _components(table, check, core=core)
        records += _absent(table)
    records += _ops(manager.registry.ops, check)
    records += _kernels(manager.registry.kernels, check)
    for offer in manager.hooks_offers:
        records.append(_of(offer, *(_hooks_state(manager, offer) if check else ("installed",))))
    return records


def _of(offer: Any, state: str, reason: str = "", mend: str = "") -> PluginRecord:
    return PluginRecord(offer.word, offer.name, offer.source.name, offer.source.version, state, reason, mend)


def _components(table: ComponentTable[Any], check: bool, *, core: bool) -> Iterator[PluginRecord]:
    for offer in table.offers():
        if offer.source.name == CORE_WHEEL and not core:
            continue
        try:
            table.find(offer.name)
        except PluginError as error:
            yield _of(offer, "ambiguous", error.message, error.hint or "")
            continue
        yield _of(offer, *(_component_state(offer) if check else ("installed",)))


def _component_state(offer: ComponentOffer[Any]) -> tuple[str, str, str]:
    answer = offer.availability()
    if isinstance(answer, PluginError):
        return _trouble(answer)
    if isinstance(answer, Unavailable):
        return "unavailable", answer.reason, answer.hint
    return "usable", answer.detail, ""


def _trouble(error: PluginError) -> tuple[str, str, str]:
    state = "incompatible" if isinstance(error, IncompatiblePluginError) else "broken"
    return state, error.message, error.hint or ""


def _absent(table: ComponentTable[Any]) -> Iterator[PluginRecord]:
    for name, wheel in known(table.kind.group).values():
        if name not in table:
            if wheel.released:
                yield PluginRecord(table.kind.word, name, wheel.name, "", "not installed", "", wheel.pip_line)
            else:
                yield PluginRecord(table.kind.word, name, wheel.name, "", "planned")


def _ops(ops: Operations, check: bool) -> Iterator[PluginRecord]:
    for offer in ops.offers():
        yield _of(offer, *(_ops_state(ops, offer) if check else ("installed",)))
    offered = {offer.source for offer in ops.offers()}
    for source, op in ops.added():
        if source not in offered:
            yield PluginRecord("ops", op.name, source.name, source.version, "usable")


def _ops_state(ops: Operations, offer: OpsOffer) -> tuple[str, str, str]:
    problem = ops.problem(offer)
    if problem is not None:
        return _trouble(problem)
    found = offer.outcome()
    names = ", ".join(op.name for op in found) if isinstance(found, tuple) else ""
    return "usable", names, ""


def _kernels(kernels: Kernels, check: bool) -> Iterator[PluginRecord]:
    for offer in kernels.offers():
        yield _of(offer, *(_kernels_state(offer) if check else ("installed",)))
    for source, kernel in kernels.added():
        yield PluginRecord("kernels", kernel.engine, source.name, source.version, "usable", kernel.op.name)


def _kernels_state(offer: KernelsOffer) -> tuple[str, str, str]:
    found = offer.outcome()
    if isinstance(found, PluginError):
        return _trouble(found)
    count = len({kernel.op for kernel in found})
    return "usable", f"{count} operation{'' if count == 1 else 's'}", ""


def _hooks_state(manager: PluginManager, offer: HooksOffer) -> tuple[str, str, str]:
    problem = manager.hooks_problem(offer)
    return ("usable", "", "") if problem is None else _trouble(problem)


# -- as text --------------------------------------------------------------------------------------------------

_TITLES = ("kind", "name", "wheel", "version", "state")


def show_table(records: Iterable[PluginRecord], notes: Sequence[str] = ()) -> str:
    """Return the records as a plain table; reasons and remedies stand below their row."""
    rows = list(records)
    cells = [_TITLES, *((row.kind, row.name, row.wheel, row.version or "-", row.state) for row in rows)]
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(_TITLES))]
    lines = [_aligned(_TITLES, widths)]
    for cell, row in zip(cells[1:], rows, strict=True):
        lines.append(_aligned(cell, widths))
        lines += [f"    {line}" for text in (row.reason, row.mend) for line in text.splitlines()]
    return "\n".join([*lines, *notes])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
