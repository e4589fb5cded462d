"""Steps of a plan in words, and what they took as a trace for a time line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cntk_core.errors import Location
from cntk_core.network.node import Node
from cntk_core.plan.plan import AnyStep, GradientStep, Loop, LoopGradient
from cntk_kit_engines.timing import RunTime

_NAMES = 48
"""Characters of the names of a step."""


def nodes_of_step(step: AnyStep) -> tuple[Node, ...]:
    """Return the nodes that a step computes, or whose gradients it computes."""
    if isinstance(step, GradientStep):
        return step.step.nodes
    return step.loop.nodes if isinstance(step, LoopGradient) else step.nodes


def describe_step(step: AnyStep) -> str:
    """Return a step in words: its ops and the node that it ends with."""
    nodes = nodes_of_step(step)
    if isinstance(step, Loop | LoopGradient):
        what = f"loop of {len(nodes)} nodes up to {nodes[-1].name}"
    else:
        what = f"{' + '.join(node.op.name for node in nodes)} {nodes[-1].name}"
    what = what if len(what) <= _NAMES else f"{what[: _NAMES - 3]}..."
    return f"gradient of {what}" if isinstance(step, GradientStep | LoopGradient) else what


def places_of_step(step: AnyStep) -> Sequence[Location]:
    """Return where a recipe asks for a step: the lines of its nodes, the last one's first."""
    places = (node.where for node in reversed(nodes_of_step(step)))
    return list({(place.file, place.line): place for place in places if place is not None}.values())


def trace(title: str, runs: Sequence[RunTime], waits: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """Return what Chrome (``chrome://tracing``), Perfetto and others show on a time line, to be written as JSON.

    Args:
        title: of the whole.
        runs: of programs.
        waits: for minibatches: beginnings and ends in nanoseconds.

    Returns:
        The JSON object form of the Trace Event Format: complete events (``"ph": "X"``), times in microseconds.
    """
    first = min([begin for begin, _ in waits] + [run.begin for run in runs], default=0)
    names: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": title}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "steps"}},
    ]
    waiting = (_event("reader", "reader", begin, end) for begin, end in waits)
    events = sorted([*waiting, *_events(runs)], key=lambda event: (event["ts"], -event["dur"]))
    for event in events:
        event["ts"] = (event["ts"] - first) / 1e3
        event["dur"] /= 1e3
    return {"traceEvents": names + events, "displayTimeUnit": "ns"}


def _events(runs: Iterable[RunTime]) -> Iterator[dict[str, Any]]:
    for run in runs:
        yield _event(run.call, "step", run.begin, run.end, rows=dict(run.rows))
        for each in run.steps:
            if each.step is None:
                yield _event("update", "update", each.begin, each.end)
            else:
                places = [str(place) for place in places_of_step(each.step)]
                yield _event(describe_step(each.step), "plan", each.begin, each.end, recipe=places)


def _event(name: str, category: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    event = {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": 1, "ts": begin, "dur": end - begin}
    return {**event, "args": more} if more else event
