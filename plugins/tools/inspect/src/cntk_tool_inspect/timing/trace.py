"""A profile as a trace that Chrome (``chrome://tracing``), Perfetto and others show on a time line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cntk_tool_inspect.timing.measure import READER, UPDATE, Profile
from cntk_tool_inspect.timing.table import describe, places_of

# The JSON object format of the Trace Event Format: complete events ("ph": "X"), times in microseconds.


def write_trace(profile: Profile, path: Path) -> None:
    """Write the steps that were measured as a file.

    Raises:
        OSError: it cannot be written.
    """
    begin = min([begin for begin, _ in profile.reads] + [run.begin for run in profile.runs], default=0)
    names = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"{profile.section} ({profile.engine})"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "training"}},
    ]
    events = sorted(_events(profile), key=lambda event: (event["ts"], -event["dur"]))
    for event in events:
        event["ts"] = (event["ts"] - begin) / 1e3
        event["dur"] /= 1e3
    path.write_text(json.dumps({"traceEvents": names + events, "displayTimeUnit": "ns"}), encoding="utf-8")


def _events(profile: Profile) -> Iterator[dict[str, Any]]:
    for begin, end in profile.reads:
        yield _event(READER, "reader", begin, end)
    for run in profile.runs:
        yield _event(run.call, "step", run.begin, run.end, rows=dict(run.rows))
        for each in run.steps:
            if each.step is None:
                yield _event(UPDATE, "update", each.begin, each.end)
            else:
                places = [str(place) for place in places_of(each.step)]
                yield _event(describe(each.step), "plan", each.begin, each.end, recipe=places)


def _event(name: str, category: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    event = {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": 1, "ts": begin, "dur": end - begin}
    return {**event, "args": more} if more else event
