"""Small examples of operations: inputs, a program that computes with them, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import NoAttributes, Op
from cntk_core.api.engines import run_forward, sequence_layout
from cntk_testing.op_cases import ExampleCase, example_cases
from cntk_testing.op_examples import EXAMPLES
from docs_site.op_facts import SYMBOLS

PARAMETERS = ("A", "B", "C", "D", "E", "F")
"""What examples call inputs without samples."""

FRAMED = {"Times": (False, True), "TransposeTimes": (False, True), "DiagTimes": (False, True)}
"""Which inputs have samples, where an example may have any."""

Array = NDArray[Any]


@attrs.frozen
class OpSample:
    """An example of an operation.

    Attributes:
        names: of the inputs.
        inputs: their values; those with samples are ``(samples, *shape)``.
        framed: which inputs have samples.
        value: what comes out.
        program: Python that computes it.
        shown: what of its results is the value: ``found``, or ``found[0]`` where they come as a list of sequences.
        exact: whether the program gives just this value: nothing is drawn at random.
    """

    names: tuple[str, ...]
    inputs: tuple[Array, ...]
    framed: tuple[bool, ...]
    value: Array
    program: str
    shown: str
    exact: bool


def sample_of(op: Op) -> OpSample | None:
    """Return an example of an op, None if it has none that is computed from inputs alone."""
    cases = list(example_cases(op, EXAMPLES.get(op.name, ())[:1]))
    if not cases:
        return None
    case = next((case for case in cases if case.framed == FRAMED.get(op.name)), cases[0])
    inputs = tuple(np.round(value, 1) for value in case.inputs)
    context = case.context()
    if any(case.framed):
        layout = sequence_layout([context.frames])
        context.layout, context.layouts = layout, tuple(layout if has else None for has in case.framed)
    context.training = False
    value = np.array(run_forward(case.op, np, inputs, case.attributes, context), dtype=np.float64)
    samples = iter(SYMBOLS)
    parameters = iter(PARAMETERS)
    names = tuple(next(samples if has else parameters) for has in case.framed)
    program = program_of(case, names, inputs)
    shown = "found[0]" if _by_sequences(case) and not op.reduces_frames else "found"
    return OpSample(names, inputs, case.framed, value, program, shown, not op.random)


def program_of(case: ExampleCase, names: Sequence[str], inputs: Sequence[Array]) -> str:
    """Return a program that computes an example with the builder and the model of Python."""
    lines = ["import numpy as np", "from cntk_builder_python import Graph"]
    lines += ["from cntk_core.model import Model", "", "graph = Graph()"]
    data = []
    for name, value, has in zip(names, inputs, case.framed, strict=True):
        if has:
            lines.append(f'{name} = graph.input("{name}", {value.shape[1:]})')
            data.append(f'"{name}": {_given(value, case)}')
        else:
            lines.append(f"{name} = graph.parameter({value.shape}, init=np.array({numbers(value)}))")
    changed = "".join(f", {name}={value}" for name, value in changed_attributes(case.op, case.attributes))
    lines.append(f'graph.output(graph.apply("{case.op.name}", {", ".join(names)}{changed}), "out")')
    lines += ["", "model = Model(graph.finish())"]
    lines.append(f'found = model.evaluate({{{", ".join(data)}}})["out"]')
    return "\n".join(lines)


def _given(value: Array, case: ExampleCase) -> str:
    """Return values as the program gives them: samples, or one sequence of them where the op looks along it."""
    array = f"np.array({numbers(value)})"
    return f"[{array}]" if _by_sequences(case) else array


def _by_sequences(case: ExampleCase) -> bool:
    """Whether the program gives sequences, because the op looks along them."""
    op = case.op
    return not op.traits.row_wise or bool(op.along_sequences) or op.axis_of is not None or op.relayout is not None


def changed_attributes(op: Op, attributes: Any) -> list[tuple[str, str]]:
    """Return the attributes that are not the defaults, as the program writes them."""
    if op.attributes is NoAttributes:
        return []
    found = []
    for field in attrs.fields(op.attributes):
        value = getattr(attributes, field.name)
        if field.init and (field.default is attrs.NOTHING or value != field.default):
            found.append((field.name.lstrip("_"), repr(value)))
    return found


def numbers(value: Array) -> str:
    """Return an array as a list, with numbers as short as they are."""
    if value.ndim:
        return f"[{', '.join(numbers(each) for each in value)}]"
    return f"{float(value) + 0.0:.6g}"
