"""Einsum: products of tensors with named axes, as products of matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.products import by_parts
from cntk_model_onnx.read.reductions import reduced
from cntk_model_onnx.read.shapes import reshaped, squeezed, turned, unsqueezed
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Constant, Tensor, Unreadable, Value

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer


@attrs.frozen
class _Named:
    """A tensor and the letters of its axes."""

    value: Value
    letters: str

    def sizes(self, reader: Importer) -> dict[str, Any]:
        own = self.value.array.shape if isinstance(self.value, Constant) else self.value.sizes(reader.samples)
        return dict(zip(self.letters, own, strict=True))

    @property
    def samples(self) -> str:
        """The letter of the samples' axis, or none."""
        place = self.value.batch if isinstance(self.value, Tensor) else WHOLE
        return "" if place == WHOLE else self.letters[place]


@reads("Einsum")
def _einsum(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    operands, output = _parsed(attributes_of(node)["equation"], [each for each in inputs if each is not None])
    if any(isinstance(each.value, Tensor) and each.value.fold != 1 for each in operands):
        raise Unreadable("the samples of its inputs do not stand along an axis of their own")
    found = operands[0]
    for place, other in enumerate(operands[1:], 2):
        later = "".join(each.letters for each in operands[place:])
        kept = "".join(letter for letter in dict.fromkeys(found.letters + other.letters) if letter in output + later)
        found = _product(reader, found, other, kept)
    return _ordered(reader, _summed(reader, found, output), output).value


def _parsed(equation: str, values: Sequence[Value]) -> tuple[list[_Named], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise Unreadable("its equation has not as many terms as it has inputs")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    counts = [value.rank - len(term.replace("...", "")) for term, value in zip(terms, values, strict=True)]
    dots = "".join(free[: max([count for term, count in zip(terms, counts, strict=True) if "..." in term], default=0)])
    named = [
        term.replace("...", dots[len(dots) - count :] if count else "") if "..." in term else term
        for term, count in zip(terms, counts, strict=True)
    ]
    joined = "".join(named)
    own = "".join(sorted(letter for letter in set(joined) if joined.count(letter) == 1 and letter not in dots))
    output = right.replace("...", dots) if arrow else dots + own
    if any(len(set(term)) < len(term) or len(term) != value.rank for term, value in zip(named, values, strict=True)):
        raise Unreadable("its equation names an axis twice, or not as many as its inputs have")
    return [_Named(value, term) for value, term in zip(values, named, strict=True)], output


def _summed(reader: Importer, operand: _Named, kept: str) -> _Named:
    """Add up along the axes that nobody needs."""
    gone = [place for place, letter in enumerate(operand.letters) if letter not in kept]
    if not gone:
        return operand
    letters = "".join(letter for letter in operand.letters if letter in kept)
    if isinstance(operand.value, Constant):
        return _Named(Constant(operand.value.array.sum(tuple(gone))), letters)
    return _Named(squeezed(reader, reduced(reader, operand.value, "Sum", gone), gone), letters)


def _ordered(reader: Importer, operand: _Named, letters: str) -> _Named:
    """Bring the axes in an order; those that are missing get the length 1."""
    own = [letter for letter in letters if letter in operand.letters]
    order = [operand.letters.index(letter) for letter in own]
    missing = [place for place, letter in enumerate(letters) if letter not in own]
    if isinstance(operand.value, Constant):
        return _Named(Constant(np.expand_dims(operand.value.array.transpose(order), tuple(missing))), letters)
    found = turned(reader, operand.value, order)
    return _Named(unsqueezed(reader, found, *missing), letters)


def _shaped(reader: Importer, operand: _Named, shape: Sequence[Any]) -> Value:
    if isinstance(operand.value, Constant):
        return Constant(operand.value.array.reshape([int(size) for size in shape]))
    return reshaped(reader, operand.value, shape)


def _product(reader: Importer, left: _Named, right: _Named, kept: str) -> _Named:
    left = _summed(reader, left, kept + right.letters)
    right = _summed(reader, right, kept + left.letters)
    sizes = {**right.sizes(reader), **left.sizes(reader)}
    samples = left.samples or right.samples
    both = "".join(letter for letter in left.letters if letter in right.letters and letter in kept)
    batch = samples + both.replace(samples, "") if samples else both
    inner = "".join(letter for letter in left.letters if letter in right.letters and letter not in kept + batch)
    rows = "".join(letter for letter in left.letters if letter not in batch + inner)
    columns = "".join(letter for letter in right.letters if letter not in batch + inner)

    def size(letters: str) -> int:
        total = 1
        for letter in letters:
            total *= int(sizes[letter])
        return total

    one, other = _ordered(reader, left, batch + rows + inner), _ordered(reader, right, batch + inner + columns)
    outer = [one.sizes(reader)[letter] for letter in batch], [other.sizes(reader)[letter] for letter in batch]
    first = _shaped(reader, one, [*outer[0], size(rows), size(inner)])
    second = _shaped(reader, other, [*outer[1], size(inner), size(columns)])
    found = by_parts(reader, first, second)
    shape = [*(sizes[letter] for letter in batch), *(sizes[letter] for letter in rows + columns)]
    return _Named(reshaped(reader, found, shape), batch + rows + columns)
