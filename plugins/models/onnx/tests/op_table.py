"""The table of operations in docs/onnx.md: ``python plugins/models/onnx/tests/op_table.py`` writes it anew.

What an operation is written as is seen in the graphs of the examples on which all operations are checked.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
from cntk_model_onnx.export.choose import OF_TRAINING
from cntk_model_onnx.export.exporter import export
from cntk_model_onnx.export.table import ALIASES, REFUSED, WRITERS
from cntk_model_onnx.read.importer import Importer
from cntk_model_onnx.read.table import READERS
from cntk_model_onnx.settings import ExportSettings
from judge import gap_between, load, stripped, written

from cntk_core.api import CntkError, Network, Op, core_ops
from cntk_testing.lattice_networks import LATTICE_SAMPLES
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

assert Importer is not None, "it brings all that read"

PAGE = Path(__file__).parents[4] / "docs" / "onnx.md"
BEGIN, END = "<!-- <operations> -->", "<!-- </operations> -->"
LEAVES = {
    "InputValue": "an input",
    "SparseInputValue": "an input of whole numbers",
    "LearnableParameter": "an initializer",
    "Mean": "an initializer",
    "InvStdDev": "an initializer",
    "DynamicAxis": "a symbolic dimension",
}
LOOPS = {"PastValue", "FutureValue"}
SAME = {"UnpackBatch": "its input", "ToBatch": "its input"}
"""What is no operation of ONNX: the samples are an axis of the tensor as well."""


def kinds_of(network: Network) -> set[str]:
    """The operations of ONNX that a network is written with."""
    return {node.op_type for node in export(network, ExportSettings()).model.graph.node}


def examples_of(op: Op) -> Iterable[Network]:
    """Networks with the examples of an operation, one for each."""
    for cases in cases_together(op, EXAMPLES.get(op.name, ())):
        for case in cases:
            made, _ = network_of([case], "float32", learned=False)
            made.network.roots["output"] = list(made.roots)
            yield made.network


def whole_networks(op: Op) -> Iterator[Network]:
    """The networks on which the engines are compared that have an operation, where it has no examples of its own."""
    for make in (*SEQUENCE_SAMPLES.values(), *LATTICE_SAMPLES.values()):
        made = make("float32")
        if any(node.op.name == op.name for node in made.network):
            made.network.roots["output"] = list(made.roots)
            yield made.network


def written_as(op: Op) -> str:
    """What a row says of writing an operation."""
    if op.name in LEAVES:
        return LEAVES[op.name]
    if op.name in OF_TRAINING:
        return "left out: training"
    if op.name in REFUSED:
        return f"no: {REFUSED[op.name][0]}"
    if op.name in ALIASES:
        return "its input"
    if op.name in SAME:
        return SAME[op.name]
    if op.name not in WRITERS:
        return "no"
    kinds: set[str] = set()
    for network in examples_of(op):
        try:
            kinds |= kinds_of(network)
        except CntkError:
            continue
    kinds -= {"Identity", "Unsqueeze", "Squeeze", "Shape", "Expand", "Concat"} if len(kinds) > 1 else set()
    extra = ["state of `Scan`"] if op.name in LOOPS else []
    return ", ".join([*(f"`{kind}`" for kind in sorted(kinds)), *extra]) or "several"


@attrs.frozen
class Row:
    """What becomes of an operation.

    Attributes:
        op: its name.
        written: as what.
        read: whether the graph alone, without what our files say beside it, is read back with the same values:
            ``yes``, ``partly`` (some examples), ``no``; empty for what is not written.
    """

    op: str
    written: str
    read: str


def rows() -> list[Row]:
    """Return a row for each operation of the core; it takes a minute."""
    return [Row(op.name, written_as(op), read_back(op)) for op in core_ops()]


def read_back(op: Op) -> str:
    """Whether the examples of an operation are read from their graphs."""
    if op.name in LEAVES or op.name in ALIASES:
        return "yes"
    if op.name not in WRITERS:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        found = [_comes_back(network, Path(folder)) for network in (list(examples_of(op)) or whole_networks(op))]
    told = [each for each in found if each is not None]
    return "" if not told else "yes" if all(told) else "partly" if any(told) else "no"


def _comes_back(network: Network, folder: Path) -> bool | None:
    try:
        path = written(network, folder / "op.onnx")
    except CntkError:
        return None
    try:
        return gap_between(network, load(stripped(path))) < 1e-4
    except (CntkError, ValueError, KeyError):
        return False


def read_from() -> str:
    """The operations of ONNX that are read."""
    return ", ".join(f"`{name}`" for name in sorted(READERS))


def table() -> str:
    """The table as the page has it."""
    lines = ["| operation | in ONNX |", "| --- | --- |"]
    lines += [f"| {op.name} | {written_as(op)} |" for op in core_ops()]
    return "\n".join([*lines, "", f"Read are {read_from()}, and what depends on sizes and weights alone.", ""])


def with_table(page: str, made: Callable[[], str] = table) -> str:
    """A page with its table written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made()}{END}{after}"


if __name__ == "__main__" and "--rows" in sys.argv:
    for row in rows():
        print(f"{row.op}\t{row.written}\t{row.read}")
elif __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
