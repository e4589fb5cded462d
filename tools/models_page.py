"""Write the table of operations by engines and formats of models: ``python tools/models_page.py``.

Its columns come from what reads and writes the formats, and from the examples on which the tests try each operation.
The page's introduction is kept; what stands after the line ``<!-- generated -->`` is written anew. It takes a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cntk_model_cntk1.bcn.operations import carried as version_1
from cntk_model_cntk2.save import carried as version_2

from cntk_core.api import ExecutionEngine, Network, Op, core_ops
from cntk_core.api.builders import parse_text
from cntk_core.api.engines import make_plan
from cntk_core.api.recipes import PluginManager
from cntk_testing.op_examples import EXAMPLES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "model-operations.md"
MARK = "<!-- generated -->"
ASKED = "xla"
"""The engine that says what it leaves to the host; all others compute everything by themselves."""

sys.path.insert(0, str(ROOT / "plugins/models/onnx/tests"))
from op_table import examples_of, rows, whole_networks  # noqa: E402 - beside the tests of ONNX, which are on no path


def engines_of(op: Op, engine: ExecutionEngine) -> str:
    """What computes an operation: all engines, as their tests see to it."""
    if op.role in ("input", "parameter", "axis", "precompute"):
        return ""  # engines are given its values
    if not op.computable:
        return "none"
    tried = list(examples_of(op)) or list(whole_networks(op))
    assert tried or op.name in EXAMPLES, f"no test compares the engines on {op.name}"
    return "all; XLA on the host" if any(_is_hosted(network, op, engine) for network in tried) else "all"


def _is_hosted(network: Network, op: Op, engine: ExecutionEngine) -> bool:
    plan = make_plan(network, network.roots["output"])
    hosted = set(engine.on_host(plan))
    return any(node.op.name == op.name for step in plan.steps if step in hosted for node in step.nodes)


def way(both: tuple[bool, bool]) -> str:
    """In and out of a format, as a cell says it."""
    return {(True, True): "in, out", (True, False): "in", (False, True): "out"}.get(both, "")


def table() -> str:
    """Return the table and what it adds up to."""
    kind = PluginManager().engine(ASKED)
    engine = kind(kind.settings_from(parse_text(""), ASKED))
    told = {row.op: row for row in rows()}
    lines = [
        "| operation | engines | version 1 | version 2 | ONNX out | ONNX in |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for op in core_ops():
        written, read = told[op.name].written, told[op.name].read
        cells = (f"`{op.name}`", engines_of(op, engine), way(version_1(op)), way(version_2(op)), written, read)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page(current: str) -> str:
    """Return the page with a table of today."""
    head, mark, _ = current.partition(MARK)
    return f"{head}{mark}\n\n{table()}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
