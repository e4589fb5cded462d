"""DataWriter: where the action write puts the values of output nodes, instead of text files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
from numpy.typing import NDArray

from cntk_core.contract.component import Component


@attrs.frozen(eq=False)
class SparseRows:
    """Frames of which only some elements are not zero, one frame after the other.

    Attributes:
        values: ``(n,)``, of all frames together.
        indices: the element of each value. Shape ``(n,)``.
        counts: how many values each frame has. Shape ``(frames,)``.
    """

    values: NDArray[Any]
    indices: NDArray[Any]
    counts: NDArray[Any]

    def __len__(self) -> int:
        return len(self.counts)


@attrs.frozen(eq=False)
class SequenceOutput:
    """The values of a node for one sequence.

    Attributes:
        key: of the sequence; empty if the reader has no keys.
        values: ``(frames, elements)``; of an output that is ``sparse`` in the context, its :class:`SparseRows`.
    """

    key: str
    values: NDArray[Any] | SparseRows


@attrs.frozen
class WriterContext:
    """What a writer is told beside its options.

    Attributes:
        outputs: output node to the number of its elements.
        sparse: those that come as :class:`SparseRows`; only `cntk convert-data` gives any.
        trace: function for information, one line each.
    """

    outputs: Mapping[str, int] = attrs.field(factory=dict)
    trace: Any = None
    sparse: frozenset[str] = frozenset()


class DataWriter(Component):
    """Writes values. Made as ``Writer(options, context)``; its ``settings`` are an instance of ``cls.options``."""

    core_keys: ClassVar[tuple[str, ...]] = ("writerType", "type", "module")

    def __init__(self, options: Any, context: WriterContext) -> None:
        self.settings = options
        self.context = context

    @abstractmethod
    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next sequences, in the order of the data: output node to one value for each sequence.

        Raises:
            CntkError: they cannot be written.
        """

    def close(self) -> None:
        """Finish. May be called more than once."""

    def discard(self) -> None:
        """End after an error: what is not whole must not look so. May be called more than once."""
        self.close()
