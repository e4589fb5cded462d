"""Components of a file of Kaldi's nnet1: layers, and what is done to features. They are K. Vesely's.

A component is its name in angle brackets, how many values it gives and takes, named numbers that training needs, and
its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Location
from cntk_reader_kaldi.token_file import TokenFile

Values = NDArray[np.float64]
RATE, BIAS_RATE = "LearnRateCoef", "BiasLearnRateCoef"
CELL_CLIP = "CellClip"
LSTM_ARRAYS = ("Wx", "Wr", "b", "Pi", "Pf", "Po", "Wm")
"""Arrays of an LSTM: its four gates (cell, input, forget, output) of input and output, peepholes, the projection."""


@attrs.frozen(eq=False)
class Component:
    """One component.

    Attributes:
        kind: its name, without the brackets.
        output, given: how many values it gives and takes.
        arrays: its values, by names of ours, in the order of the file.
        places: offsets of frames (``Splice``), or columns from 0 (``Copy``).
        numbers: the named ones, by Kaldi's names.
    """

    kind: str
    output: int
    given: int
    arrays: Mapping[str, Values] = attrs.field(factory=dict)
    places: tuple[int, ...] = ()
    numbers: Mapping[str, float] = attrs.field(factory=dict)


_ALIASES = {
    "CopyComponent": "Copy",
    "LstmProjectedStreams": "LstmProjected",
    "BlstmProjectedStreams": "BlstmProjected",
    "ReLU": "Relu",
    "RectifiedLinear": "Relu",
}
_INTEGERS = ("CellDim",)


def read_components(
    path: Path, where: Location | None, known: Collection[str], unknown: str, **words: str
) -> list[Component]:
    """Read a file of nnet1, binary or text.

    Args:
        path: of the file.
        where: the place that names it.
        known: the kinds that may be there.
        unknown: what to do about another one, for messages.
        words: ``what`` and ``hint`` of :meth:`TokenFile.open`.

    Raises:
        DataError: it cannot be read, or has another component; at which byte or line.
    """
    file = TokenFile.open(path, where, **words)
    found: list[Component] = []
    opened = False
    while (name := file.name()) not in ("", "</Nnet>"):
        opened = opened or name == "<Nnet>"
        if name in ("<Nnet>", "<!EndOfComponent>"):
            continue
        kind = _ALIASES.get(name.strip("<>"), name.strip("<>"))
        if kind not in known:
            raise file.wrong(
                f"the component {name} is not known here", f"These are known: {', '.join(known)}. {unknown}"
            )
        output, given = file.integer(), file.integer()
        if min(output, given) < 1 or (found and found[-1].output != given):
            before = f", and the one before it gives {found[-1].output}" if found else ""
            raise file.wrong(f"{name} takes {given} values and gives {output}{before}")
        found.append(_READ[kind](file, kind, output, given))
    if opened and not name:
        raise file.wrong("the file ends where </Nnet> should be", "The file is damaged or was not copied to its end.")
    if not found:
        raise file.wrong("there are no components")
    return found


def _numbers(file: TokenFile) -> dict[str, float]:
    """Read names with a number behind each."""
    found: dict[str, float] = {}
    while file.peek_name():
        name = file.name().strip("<>")
        found[name] = file.integer() if name in _INTEGERS else file.real()
    return found


def _same(file: TokenFile, output: int, given: int) -> int:
    if output != given:
        raise file.wrong(f"the component takes {given} values and gives {output}: they should be equally many")
    return output


def _read_splice(file: TokenFile, kind: str, output: int, given: int) -> Component:
    offsets = file.integers()
    if len(offsets) * given != output:
        raise file.wrong(f"<Splice> has {len(offsets)} offsets, but makes {output} values out of {given}")
    return Component(kind, output, given, places=tuple(offsets))


def _read_copy(file: TokenFile, kind: str, output: int, given: int) -> Component:
    places = file.integers()
    if len(places) != output or not all(1 <= place <= given for place in places):
        raise file.wrong(f"<Copy> must name {output} values from 1 to {given}")
    return Component(kind, output, given, places=tuple(place - 1 for place in places))


def _read_each(file: TokenFile, kind: str, output: int, given: int) -> Component:
    """One value for each element."""
    _same(file, output, given)
    numbers = _numbers(file)
    return Component(kind, output, given, {"values": file.array(output)}, numbers=numbers)


def _read_nothing(file: TokenFile, kind: str, output: int, given: int) -> Component:
    _same(file, output, given)
    return Component(kind, output, given, numbers=_read_options(file))


def _read_options(file: TokenFile) -> dict[str, float]:
    """Read named numbers that a component without arrays has; the next name may be another component's."""
    found: dict[str, float] = {}
    for name in ("DropoutRate", "DropoutRetention"):
        if file.peeks(f"<{name}>"):
            file.name()
            found[name] = file.real()
    return found


def _read_linear(file: TokenFile, kind: str, output: int, given: int) -> Component:
    numbers = _numbers(file)
    return Component(kind, output, given, {"W": file.array(output, given)}, numbers=numbers)


def _read_affine(file: TokenFile, kind: str, output: int, given: int) -> Component:
    numbers = _numbers(file)
    arrays = {"W": file.array(output, given), "b": file.array(output)}
    return Component(kind, output, given, arrays, numbers=numbers)


def _read_slopes(file: TokenFile, kind: str, output: int, given: int) -> Component:
    """Slopes above zero and below it."""
    _same(file, output, given)
    numbers = _numbers(file)
    return Component(kind, output, given, {"alpha": file.array(output), "beta": file.array(output)}, numbers=numbers)


def _read_lstm(file: TokenFile, kind: str, output: int, given: int) -> Component:
    numbers = _numbers(file)
    cells = int(numbers.get("CellDim", 0))
    ways = ("f.", "b.") if kind == "BlstmProjected" else ("",)
    if cells < 1 or output % len(ways):
        raise file.wrong(f"<{kind}> of {output} values cannot have {cells} cells")
    size = output // len(ways)
    shapes = [(4 * cells, given), (4 * cells, size), (4 * cells,), (cells,), (cells,), (cells,), (size, cells)]
    arrays = {way + name: file.array(*shape) for way in ways for name, shape in zip(LSTM_ARRAYS, shapes, strict=True)}
    return Component(kind, output, given, arrays, numbers=numbers)


_READ: Mapping[str, Callable[[TokenFile, str, int, int], Component]] = {
    "Splice": _read_splice,
    "Copy": _read_copy,
    "AddShift": _read_each,
    "Rescale": _read_each,
    "AffineTransform": _read_affine,
    "LinearTransform": _read_linear,
    "Sigmoid": _read_nothing,
    "Tanh": _read_nothing,
    "Softmax": _read_nothing,
    "LengthNormComponent": _read_nothing,
    "Relu": _read_nothing,
    "ParametricRelu": _read_slopes,
    "Dropout": _read_nothing,
    "LstmProjected": _read_lstm,
    "BlstmProjected": _read_lstm,
}
KINDS = tuple(_READ)
"""All that are known."""
