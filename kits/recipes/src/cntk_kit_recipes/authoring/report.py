"""``cntk plugins``: what is there, from which wheel, and why something is not usable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from cntk_core.contract.component import Unavailable
from cntk_core.errors import IncompatiblePluginError, PluginError
from cntk_core.plugins.discovery import OWN_WHEELS
from cntk_core.plugins.known import known
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.offer import ComponentOffer, HooksOffer, Offer
from cntk_core.plugins.precedence import Preferences
from cntk_core.plugins.registry import ComponentTable
from cntk_core.plugins.third_party_kernels import Kernels, KernelsOffer
from cntk_core.plugins.third_party_ops import Operations, OpsOffer

STATES = (
    *("installed", "usable", "unavailable", "incompatible", "broken", "ambiguous", "shadowed", "switched off"),
    *("not installed", "planned"),
)
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
        seconds: that its import took; 0 if it was not loaded, or had been loaded with another plugin of its wheel.
    """

    kind: str
    name: str
    wheel: str
    version: str
    state: str
    reason: str = ""
    mend: str = ""
    seconds: float = 0.0


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
        state = _off(manager.registry.preferences, offer)
        records.append(_of(offer, *(state or (_hooks_state(manager, offer) if check else ("installed",)))))
    return records


def of_kind(records: Iterable[PluginRecord], kind: str) -> list[PluginRecord]:
    """Return the records of one kind (``reader``, ``model_format``, ``op``); all of them where it is empty.

    Raises:
        UsageError: there is no such kind.
    """
    rows = list(records)
    if not kind:
        return rows
    from cntk_kit_recipes.authoring.check import kind_of

    wanted = kind_of(kind).replace("_", " ")
    return [row for row in rows if row.kind == wanted]


def _off(preferences: Preferences, offer: Offer[Any]) -> tuple[str, str] | None:
    """State and reason of what is switched off; None if it is on."""
    switch = preferences.off(offer.word, offer.name, offer.source)
    return None if switch is None else ("switched off", f"by {switch.by}")


def _of(offer: Any, state: str, reason: str = "", mend: str = "") -> PluginRecord:
    source, seconds = offer.source, offer.taken.seconds
    return PluginRecord(offer.word, offer.name, source.name, source.version, state, reason, mend, seconds)


def _components(table: ComponentTable[Any], check: bool, *, core: bool) -> Iterator[PluginRecord]:
    for offer in table.all_offers():
        if offer.source.name in OWN_WHEELS and not core:
            continue
        switch = table.off(offer)
        if switch is not None:
            yield _of(offer, "switched off", f"by {switch.by}")
            continue
        try:
            first = table.find(offer.name)
        except PluginError as error:
            yield _of(offer, "ambiguous", error.message, error.hint or "")
            continue
        if first is not offer:
            mend = f"Write '{offer.source.qualifier}:{offer.name}' in a recipe to mean this one."
            yield _of(offer, "shadowed", f"{first.source} comes first", mend)
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
        state = _off(ops.preferences, offer)
        yield _of(offer, *(state or (_ops_state(ops, offer) if check else ("installed",))))
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
        switch = kernels.off(offer)
        if switch is not None:
            yield _of(offer, "switched off", f"by {switch.by}")
        else:
            yield _of(offer, *(_kernels_state(offer) if check else ("installed",)))
    for source, kernel in kernels.added():
        yield PluginRecord("kernels", kernel.engine, source.name, source.version, "usable", kernel.op.name)


def _kernels_state(offer: KernelsOffer) -> tuple[str, str, str]:
    found = offer.outcome()
    if isinstance(found, PluginError):
        return _trouble(found)
    count = len({kernel.op for kernel in found})
    return "usable", f"{count} operation{'' if count == 1 else 's'}", ""


def state_of(manager: PluginManager, offer: Offer[Any]) -> tuple[str, str, str]:
    """Load one plugin and return its state, why it is not usable, and what mends it."""
    if isinstance(offer, ComponentOffer):
        return _component_state(offer)
    if isinstance(offer, OpsOffer):
        return _ops_state(manager.registry.ops, offer)
    if isinstance(offer, KernelsOffer):
        return _kernels_state(offer)
    listener = offer.outcome()
    if isinstance(listener, PluginError):
        return _trouble(listener)
    try:
        PluginManager(listeners=[listener], discover=False)
    except PluginError as error:
        return _trouble(error)
    return "usable", "", ""


def _hooks_state(manager: PluginManager, offer: HooksOffer) -> tuple[str, str, str]:
    problem = manager.hooks_problem(offer)
    return ("usable", "", "") if problem is None else _trouble(problem)


# -- as text --------------------------------------------------------------------------------------------------

_TITLES = ("kind", "name", "wheel", "version", "state")


def show_table(records: Iterable[PluginRecord], notes: Sequence[str] = (), *, times: bool = False) -> str:
    """Return the records as a plain table; reasons and remedies stand below their row.

    Args:
        records: the rows.
        notes: lines below the table.
        times: with a column that says how long imports took.
    """
    rows = list(records)
    titles = (*_TITLES, "import") if times else _TITLES
    cells = [titles, *(_cells(row, times=times) for row in rows)]
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(titles))]
    lines = [_aligned(titles, widths)]
    for cell, row in zip(cells[1:], rows, strict=True):
        lines.append(_aligned(cell, widths))
        lines += [f"    {line}" for text in (row.reason, row.mend) for line in text.splitlines()]
    return "\n".join([*lines, *notes])


def _cells(row: PluginRecord, *, times: bool) -> tuple[str, ...]:
    cells = (row.kind, row.name, row.wheel, row.version or "-", row.state)
    return (*cells, f"{row.seconds:.3f} s" if row.seconds else "-") if times else cells


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
