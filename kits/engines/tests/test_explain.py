"""Plans in words and for programs, and what their steps took."""

from __future__ import annotations

import pytest
from small_plans import layers, recurrent

from cntk_kit_engines.explain import explain, plan_record
from cntk_kit_engines.step_trace import describe_step, places_of_step, trace
from cntk_kit_engines.timing import RunTime, StepTime

LAYERS = """\
Roots: loss
Forward, 3 steps, 1 of them on the host:
    0  Times Wx [3 x *] -> Wx in b0 (on the host)
    1  fused: Plus sum + Sigmoid h [3 x *] -> h in b0
    2  SquareError loss [1] -> loss in b1
Gradients of loss, 3 steps, 1 of them on the host:
    0  from loss -> h in b2
    1  from h -> Wx in b0, b in store
    2  from Wx -> W in store (on the host)
  W [3 x 4]: one product, the update may be folded into it
  b [3]: one product, the update may be folded into it
Buffers for 10 frames: 5 values share 3 buffers, 488 bytes instead of 968 (480 saved)"""
LOOP = """\
Roots: loss
Forward, 2 steps:
    0  loop over the time steps, {forth}, 3 steps each:
         {op} past [3 x *] -> past in b0
         Times Rh [3 x *] -> Rh in b1
         fused: Plus sum + Sigmoid h [3 x *] -> h in b2
    1  SquareError loss [1] -> loss in b3
Gradients of loss, 3 steps, 1 of them on the host:
    0  from loss -> h in b1
    1  loop over the time steps, {back}, 3 steps each (on the host):
         from h -> Rh in b4
         from Rh -> past in b5
         from past -> += h in b1
    2  from Rh -> R in store
  R [3 x 3]: one product, the update may be folded into it
Buffers for 1 frames: 7 values share 6 buffers, 128 bytes instead of 152 (24 saved)"""
WAYS = [("PastValue", "first to last", "last to first"), ("FutureValue", "last to first", "first to last")]


def test_two_layers_in_words() -> None:
    plan = layers()
    assert explain(plan, frames=10, hosted=[plan.steps[0], plan.gradients[-1]]) == LAYERS


@pytest.mark.parametrize(("op", "forth", "back"), WAYS)
def test_a_loop_in_words(op: str, forth: str, back: str) -> None:
    plan = recurrent(op)
    assert explain(plan, hosted=[plan.gradients[1]]) == LOOP.format(op=op, forth=forth, back=back)


def test_two_layers_for_programs() -> None:
    plan = layers()
    assert plan_record(plan, frames=10, hosted=[plan.steps[0], plan.gradients[-1]]) == {
        "roots": ["loss"],
        "criterion": "loss",
        "forward": [
            {"nodes": ["Wx"], "host": True, "loop": None},
            {"nodes": ["sum", "h"], "host": False, "loop": None},
            {"nodes": ["loss"], "host": False, "loop": None},
        ],
        "gradients": [
            {"from": ["loss"], "to": ["h"], "host": False, "loop": None},
            {"from": ["h"], "to": ["Wx", "b"], "host": False, "loop": None},
            {"from": ["Wx"], "to": ["W"], "host": True, "loop": None},
        ],
        "trained": ["W", "b"],
        "memory": {"frames": 10, "values": 5, "buffers": 3, "bytes": 488, "bytesAlone": 968},
    }


@pytest.mark.parametrize(("op", "forth", "back"), WAYS)
@pytest.mark.parametrize("host", [False, True])
def test_a_loop_for_programs(op: str, forth: str, back: str, host: bool) -> None:
    plan = recurrent(op)
    found = plan_record(plan, hosted=[plan.steps[0], plan.gradients[1]] if host else [])

    def step(*nodes: str) -> dict[str, object]:
        return {"nodes": list(nodes), "host": host, "loop": None}

    def gradient(source: str, target: str) -> dict[str, object]:
        return {"from": [source], "to": [target], "host": host, "loop": None}

    loop = {"order": forth, "steps": [step("past"), step("Rh"), step("sum", "h")]}
    assert found["forward"][0] == {"nodes": ["past", "Rh", "sum", "h"], "host": host, "loop": loop}
    loop = {"order": back, "steps": [gradient("h", "Rh"), gradient("Rh", "past"), gradient("past", "h")]}
    assert found["gradients"][1] == {"from": ["h"], "to": ["Rh", "past", "h"], "host": host, "loop": loop}


def test_steps_in_words_and_their_places() -> None:
    plan, loop = layers(), recurrent()
    assert [describe_step(step) for step in (*plan.steps[:2], plan.gradients[1])] == [
        "Times Wx",
        "Plus + Sigmoid h",
        "gradient of Plus + Sigmoid h",
    ]
    assert [describe_step(step) for step in (loop.steps[0], loop.gradients[1])] == [
        "loop of 4 nodes up to h",
        "gradient of loop of 4 nodes up to h",
    ]
    assert [str(place) for place in places_of_step(loop.gradients[1])] == [f"n.cntk:{line}:1" for line in (6, 5, 4, 2)]
    nodes = plan.steps[1].nodes
    nodes[0].where = nodes[1].where
    assert [str(place) for place in places_of_step(plan.gradients[1])] == ["n.cntk:6:1"]
    nodes[1].where = None
    assert [str(place) for place in places_of_step(plan.steps[1])] == ["n.cntk:6:1"]


def test_long_names_of_steps_are_cut() -> None:
    plan = layers()
    for length, shown in ((33, f"Plus + Sigmoid {'h' * 33}"), (34, f"Plus + Sigmoid {'h' * 30}...")):
        plan.network.rename(plan.steps[1].nodes[1], "h" * length)
        assert describe_step(plan.steps[1]) == shown
        assert len(shown) == 48


def test_a_time_line() -> None:
    plan = layers()
    steps = (StepTime(plan.steps[0], 2000, 2500), StepTime(None, 4000, 4250))
    run = RunTime(plan, "train_step", 2000, 5000, steps, {"": 10})
    found = trace("a training", [run], [(1000, 1500)])
    assert found["displayTimeUnit"] == "ns"
    heads, events = found["traceEvents"][:2], found["traceEvents"][2:]
    assert heads == [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a training"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "steps"}},
    ]
    assert all((event["ph"], event["pid"], event["tid"]) == ("X", 1, 1) for event in events)
    assert [(event["name"], event["cat"], event["ts"], event["dur"], event.get("args")) for event in events] == [
        ("reader", "reader", 0.0, 0.5, None),
        ("train_step", "step", 1.0, 3.0, {"rows": {"": 10}}),
        ("Times Wx", "plan", 1.0, 0.5, {"recipe": ["n.cntk:3:1"]}),
        ("update", "update", 3.0, 0.25, None),
    ]
    (only,) = trace("x", [run])["traceEvents"][3:4]
    assert only["ts"] == 0.0
    assert trace("x", [])["traceEvents"] == [{**heads[0], "args": {"name": "x"}}, heads[1]]
