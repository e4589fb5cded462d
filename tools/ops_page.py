"""Write the reference page of operations from the op table: ``python tools/ops_page.py``.

The page's introduction is kept; the tables after the line ``<!-- generated -->`` are written anew.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from cntk_core.ops.language.op import NoAttributes, Op
from cntk_core.ops.table import families

PAGE = Path(__file__).parents[1] / "docs" / "ops.md"
MARK = "<!-- generated -->"

TITLES = {
    "leaves": "Leaves",
    "unary": "One input, element by element",
    "activations": "Activations, element by element",
    "binary": "Several inputs, element by element",
    "products": "Products",
    "distances": "Distances",
    "reductions": "Sums and other reductions",
    "softmax": "Softmax family",
    "reshaping": "Other axes",
    "slicing": "Parts and repetitions",
    "rearranging": "Axes of length 1, blocks of images",
    "padding": "Padding",
    "ordering": "The largest elements",
    "filling": "Constants and types",
    "dropout": "Dropout",
    "criteria": "Criteria",
    "precompute": "Computed once over the data",
    "quantized": "Products of whole numbers",
    "vocabulary": "Large vocabularies",
    "sampling": "Random values",
    "ranking": "Ranking",
    "mixtures": "Gaussian mixtures",
    "recurrence": "Along the dynamic axis",
    "shifting": "Shifts",
    "recurrent_stack": "Recurrent stacks",
    "sequences": "Other dynamic axes",
    "batches": "Samples from axes",
    "outputs": "Operations with several outputs",
    "attention": "Attention to sequences",
    "linear_chain": "Linear chains",
    "alignment": "Criteria of whole sequences",
    "convolution": "Convolution",
    "pooling": "Pooling",
    "normalization": "Normalization of batches",
    "layer_normalization": "Normalization of samples",
    "cropping": "Parts of images",
    "monitoring": "Watching and keeping values",
    "adjoints": "What derivatives are made of",
    "image_adjoints": "What derivatives of poolings and convolutions are made of",
    "attention_adjoints": "What derivatives of attention are made of",
}


def names_of(op: Op) -> str:
    """Further names with the languages that know them."""
    languages: dict[str, list[str]] = {}
    for language, aliases in op.aliases.items():
        for alias in aliases:
            languages.setdefault(alias, []).append(language)
    return ", ".join(f"`{alias}` ({', '.join(known)})" for alias, known in languages.items())


def inputs_of(op: Op) -> str:
    """How many inputs an op takes."""
    fewest, most = op.arity
    if most is None:
        return f"{fewest} or more"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def attributes_of(op: Op) -> str:
    """Attributes with their defaults."""
    if op.attributes is NoAttributes:
        return ""
    fields = attrs.fields(op.attributes)
    return ", ".join(
        f"`{field.name}`" if field.default is attrs.NOTHING else f"`{field.name}={field.default!r}`" for field in fields
    )


def gradient_of(op: Op) -> str:
    """To which inputs a gradient flows."""
    if op.role in ("input", "parameter", "precompute", "axis"):
        return ""
    count = op.arity[1] or len(op.differentiable)
    flows = [op.flows_to(index) for index in range(count)]
    if all(flows):
        return "yes"
    return "to " + ", ".join(str(index + 1) for index, flow in enumerate(flows) if flow) if any(flows) else "none"


def tables() -> str:
    """The tables of all families."""
    lines: list[str] = []
    for family in families():
        title = TITLES[family.__name__.rpartition(".")[2]]
        lines += ["", f"## {title}", "", "| Operation | What | Inputs | Attributes | Gradient | Further names |"]
        lines.append("| --- | --- | --- | --- | --- | --- |")
        for op in family.OPS:
            doc = op.doc if op.computable else f"{op.doc} **Declared only.**"
            cells = (f"`{op.name}`", doc, inputs_of(op), attributes_of(op), gradient_of(op), names_of(op))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(current: str) -> str:
    """The whole page: the introduction of the current one and new tables."""
    introduction = current.partition(MARK)[0]
    return introduction + MARK + "\n" + tables()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
