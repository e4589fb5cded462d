"""A page for each operation of the core, made of the operation itself as the site is built."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from ops_page import TITLES, gradient_of

from cntk_core.api import Op, core_ops
from cntk_core.api.engines import run_forward, run_gradient
from cntk_core.ops.table import families
from cntk_testing.gradients import make_context
from docs_site import op_pictures
from docs_site.made import fenced
from docs_site.navigation import Entry
from docs_site.op_facts import (
    GRADIENT,
    RESULT,
    SYMBOLS,
    attributes_of,
    formats,
    formula,
    gradient_formulas,
    inputs_of,
    spellings,
)
from docs_site.op_samples import OpSample, sample_of
from docs_site.op_snippets import SNIPPETS

LIST = "docs/ops.md"
FOLDER = "operations"
FIRST_CELL = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
POINTS = np.linspace(-3.0, 3.0, 241)


def name_of(op: Op) -> str:
    """Return the name of an op's page on the site."""
    return f"{FOLDER}/{op.name}.md"


def entries() -> list[Entry]:
    """Return the navigation of all operations, by their families."""
    return [{title: [{op.name: name_of(op)} for op in ops]} for title, ops in by_family()]


def by_family() -> list[tuple[str, list[Op]]]:
    """Return the operations of each family, with its title on the page that lists them."""
    return [(TITLES[family.__name__.rpartition(".")[2]], list(family.OPS)) for family in families()]


def pages_of_all() -> dict[str, str]:
    """Return the pages of all operations, by their names on the site."""
    return {name_of(op): page(op, title) for title, ops in by_family() for op in ops}


def with_links(text: str) -> str:
    """Return the list of operations with a link from each to its page."""
    known = {op.name for op in core_ops()}
    return FIRST_CELL.sub(lambda row: f"| [`{row[1]}`]({FOLDER}/{row[1]}.md) |" if row[1] in known else row[0], text)


def page(op: Op, title: str) -> str:
    """Return the page of an operation, given the title of its family."""
    sample = sample_of(op)
    doc = op.doc if op.computable else f"{op.doc} It is declared only: networks with it are built, but not run."
    lines = [f"# {op.name}", "", doc, "", picture(op, sample), "", "| | |", "| --- | --- |", *facts(op)]
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    lines += [f"| family | [{title}](../ops.md#{anchor}) |"]
    given = attributes_of(op)
    if given:
        lines += ["", "## Attributes", "", "| name | default | what |", "| --- | --- | --- |"]
        lines += [
            f"| `{name}` | {f'`{default}`' if default else ''} | {_cell(what)} |" for name, default, what in given
        ]
    lines += ["", "## Example", "", *example(op, sample)]
    return "\n".join(lines) + "\n"


def facts(op: Op) -> Iterator[str]:
    """Yield rows: formulas, inputs, names, engines, files."""
    attributes = None if attributes_needed(op) else op.attributes()
    if attributes is not None and (said := formula(op, attributes)):
        yield f"| formula | `{RESULT} = {_cell(said)}` |"
        for name, each in zip(SYMBOLS, gradient_formulas(op, attributes), strict=False):
            if each:
                yield f"| gradient by {name} | `{_cell(each)}`, where `{GRADIENT}` is that of the result |"
    yield f"| inputs | {inputs_of(op)} |"
    yield f"| gradient | {gradient_of(op) or 'does not apply'} |"
    for language, names in spellings(op).items():
        yield f"| {language} | {', '.join(f'`{name}`' for name in names)} |"
    engines, first, second, out, back = formats().get(op.name, [""] * 5)
    yield f"| [engines](../model-operations.md) | {engines or 'every engine has such leaves'} |"
    yield f"| model files of CNTK | version 1: {first or 'no'}; version 2: {second or 'no'} |"
    yield f"| ONNX | written as {out or 'nothing'}; read back: {back or 'no'} |"


def attributes_needed(op: Op) -> bool:
    """Whether an op has attributes without defaults."""
    return any(not default for _, default, _ in attributes_of(op))


def _cell(words: str) -> str:
    return words.replace("|", "\\|") if "`" not in words else words


def example(op: Op, sample: OpSample | None) -> Iterator[str]:
    """Yield the lines of an op's example."""
    if sample is None:
        snippet = SNIPPETS[op.name]
        if snippet.program:
            yield from (fenced(snippet.program, "python"), "", "It prints:", "", fenced(snippet.printed(), "text"), "")
        yield snippet.remark
        return
    yield fenced(f"{sample.program}\nprint(np.round({sample.shown}, 4))", "python")
    yield ""
    yield "It draws at random; once it was:\n" if not sample.exact else "It prints:\n"
    yield fenced(str(np.round(sample.value + 0.0, 4)), "text")


def picture(op: Op, sample: OpSample | None) -> str:
    """Return a drawing of an op: a curve, arrays with numbers, or what goes into it."""
    if sample is None:
        return op_pictures.boxes(op.name, SNIPPETS[op.name].inputs)
    if op.elementwise is not None and op.arity == (1, 1) and not attributes_needed(op):
        return curve(op)
    inputs = list(zip(sample.names, sample.inputs, sample.framed, strict=True))
    framed = any(sample.framed) and not op.reduces_frames
    return op_pictures.flow(op.name, inputs, sample.value, framed)


def curve(op: Op) -> str:
    """Return the curve of an element-wise op of one input, with that of its derivative."""
    attributes = op.attributes()
    context = make_context([POINTS], (False,))
    value = np.broadcast_to(run_forward(op, np, [POINTS], attributes, context), POINTS.shape)
    gradient = None
    if op.flows_to(0):
        (gradient,) = run_gradient(op, np, np.ones_like(POINTS), value, [POINTS], attributes, context, [True])
    return op_pictures.curves(op.name, POINTS, value, gradient)
