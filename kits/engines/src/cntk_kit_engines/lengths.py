"""Shapes with the lengths that a minibatch gives to dimensions that every minibatch has its own of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cntk_core.errors import DataError, ShapeError
from cntk_core.network.node import Node
from cntk_core.ops.language.shapes import SAMPLES_OF, longest_axes, show, with_lengths


def check_lengths(nodes: Iterable[Node], lengths: Mapping[str, int]) -> None:
    """Make sure that nodes can be computed with the longest sequences of a minibatch.

    A slice of two frames, say, needs two.

    Args:
        nodes: those whose inputs have no such dimension are fine.
        lengths: the longest sequence of each dynamic axis and the number of its samples, by key, as far as known.

    Raises:
        DataError: names a node that cannot.
    """
    for node in nodes:
        axes = frozenset[str]().union(*(longest_axes(child.known_shape) for child in node.inputs))
        if not axes or not axes <= lengths.keys():
            continue
        told = f"{node.op.name} '{node.name}', in a minibatch{_told(axes, lengths)}"
        shapes = [with_lengths(child.known_shape, lengths) for child in node.inputs]
        try:
            found = tuple(node.op.infer(shapes, node.attributes))
        except ShapeError as error:
            raise DataError(f"{told}: {error.message}", where=node.where, hint=error.hint) from None
        wanted = with_lengths(node.known_shape, lengths)[int(node.op.unpacks) :]
        if found != wanted:
            raise DataError(f"{told}: it becomes {show(found)} instead of {show(wanted)}", where=node.where)


def _told(keys: Iterable[str], lengths: Mapping[str, int]) -> str:
    samples = [lengths[key] for key in sorted(keys) if key.startswith(SAMPLES_OF)]
    longest = [str(lengths[key]) for key in sorted(keys) if not key.startswith(SAMPLES_OF)]
    of_samples = f" with {' and '.join(map(str, samples))} sample{'s' * (samples != [1])}" if samples else ""
    of_sequences = f" whose longest sequence has the length {' and '.join(longest)}" if longest else ""
    return of_samples + of_sequences
