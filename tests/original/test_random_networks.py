"""Random networks beside the original: values, gradients and some steps of a learner, as it computed them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
RECORDED = [
    json.loads(line)
    for line in gzip.decompress(Path(__file__).with_name("random_networks.jsonl.gz").read_bytes()).splitlines()
]


@pytest.fixture(scope="module")
def tools() -> Iterator[tuple[ModuleType, ModuleType, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        import fuzz_original
        from fuzzing import twin_cases, twins

        yield fuzz_original, twin_cases, twins


def name(said: dict[str, Any]) -> str:
    case = said["case"]
    kinds = dict.fromkeys(node.get("op", node["kind"]) for node in case["nodes"] if node["kind"] != "input")
    return f"{case['seed']}-{case['learner']['kind']}-{'-'.join(kinds)}"


def tier(place: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.thorough] if place % 3 else [pytest.mark.slow] if place % 12 else []


@pytest.mark.filterwarnings("ignore:batch normalization has no statistics yet")
@pytest.mark.parametrize(
    "said", [pytest.param(one, id=name(one), marks=tier(place)) for place, one in enumerate(RECORDED)]
)
def test_a_network_computes_and_learns_as_there(
    said: dict[str, Any], tools: tuple[ModuleType, ModuleType, ModuleType]
) -> None:
    fuzz, _, twins = tools
    verdict = fuzz.judged(said["case"], said, {"found": twins.run(said["case"])})
    assert verdict.kind == "alike", verdict.said


def test_shapes_are_as_they_were_drawn(tools: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    _, cases, twins = tools
    for seed in range(40):
        drawn = cases.Drawn(seed)
        case = drawn.case()
        values = twins.Case(case).build()
        assert [values[one.place].shape for one in drawn.values] == [one.shape for one in drawn.values], seed


def test_what_differs_is_told(tools: tuple[ModuleType, ModuleType, ModuleType]) -> None:
    fuzz, cases, _ = tools
    case = {**cases.case(1), "precision": "double"}
    there = {"found": {"value 1": {"shape": [2], "data": [1.0, 2.0]}, "loss 0": [{"shape": [], "data": [3.0]}]}}
    near = {"found": {**there["found"], "value 1": {"shape": [2], "data": [1.0, 2.0 + 1e-9]}}}
    far = {"found": {**there["found"], "value 1": {"shape": [2], "data": [1.0, 2.1]}}}
    turned = {"found": {**there["found"], "value 1": {"shape": [1, 2], "data": [1.0, 2.0]}}}
    refused = {"refused": "GraphError: no"}
    crashed = {"refused": "crash"}

    assert fuzz.judged(case, there, near).kind == "alike"
    assert fuzz.judged(case, there, far).kind == "differs: value"
    assert fuzz.judged(case, there, far).said == "value 1: element 1 of 2, 1 wrong: 2.0 became 2.1"
    assert fuzz.judged(case, there, turned).said == "value 1: shape [2] became [1, 2]"
    assert fuzz.judged(case, there, {"found": {}}).kind == "other results"
    assert fuzz.judged(case, there, refused).kind == "only we refuse"
    assert fuzz.judged(case, crashed, there).kind == "only the original refuses"
    assert fuzz.judged(case, crashed, refused).kind == "both refuse"


def test_a_crash_costs_one_network(tools: tuple[ModuleType, ModuleType, ModuleType], tmp_path: Path) -> None:
    fuzz, _, _ = tools
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "for number in range(int(sys.argv[4]), 3):\n"
        "    with open(sys.argv[3], 'a') as out:\n"
        "        print(json.dumps({'begun': number}), file=out)\n"
        "    if number == 1:\n"
        "        os._exit(9)\n"
        "    with open(sys.argv[3], 'a') as out:\n"
        "        print(json.dumps({'number': number, 'found': {}}), file=out)\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    found = fuzz.found_by(str(program), [{}, {}, {}], tmp_path / "work")
    assert [one.get("found", one.get("refused")) for one in found] == [{}, "crash: ", {}]
