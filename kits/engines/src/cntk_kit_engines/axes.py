"""The dynamic axes of a plan in one minibatch: how many frames each has, and where its sequences stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cntk_core.errors import DataError
from cntk_core.network.node import BATCH, Input, Node
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.rows import longest_sequence
from cntk_core.ops.language.shapes import SAMPLES_OF, Longest
from cntk_core.plan.plan import Plan, derive_layout, derived_nodes, makes_axis_by_values
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData


class Axes:
    """What is known of the dynamic axes while a program runs.

    Attributes:
        frames: rows of each axis that is known by now.
        layouts: the sequences of each axis that is known by now.
        begun: how many minibatches were begun.
    """

    def __init__(self, plan: Plan) -> None:
        self.frames: dict[str, int] = {}
        self.layouts: dict[str, SequenceLayout] = {}
        self.begun = 0
        self._inputs = plan.inputs
        self._derived = derived_nodes(plan)

    def take(self, minibatch: Minibatch) -> dict[Input, StreamData]:
        """Begin a minibatch: return the stream of each input; the axes of inputs, and what follows of them, are known.

        Raises:
            DataError: an input has no stream, or streams of one axis differ in length.
        """
        self.begun += 1
        frames = self.frames = {}
        layouts = self.layouts = {}
        streams: dict[Input, StreamData] = {}
        for node in self._inputs:
            stream = streams[node] = stream_of(minibatch, node)
            rows = stream.data.shape[0]
            if not node.framed or node.axis == BATCH:
                _check_single(node, stream)
            if not node.framed:
                continue
            if frames.setdefault(node.axis, rows) != rows:
                raise DataError(
                    f"the streams of one minibatch differ in length: '{node.name}' has {rows} frames, "
                    f"another has {frames[node.axis]}"
                )
            layouts[node.axis] = stream.layout
        if self._derived:
            self._derive()
        return streams

    def make(self, node: Node, layout: SequenceLayout | None) -> None:
        """Note the sequences of the axis that a node has made, and those of axes that follow from it."""
        assert layout is not None, f"{node.op.name} makes an axis, but no sequences of it"
        self.layouts[node.axis] = layout
        self.frames[node.axis] = layout.frames
        self._derive()

    def _derive(self) -> None:
        for made in self._derived:
            if made.axis not in self.frames and made.inputs[0].axis in self.frames:
                layout = self.layouts[made.axis] = derive_layout(made, self.layouts)
                self.frames[made.axis] = layout.frames

    def longest(self, axes: Iterable[str] | None = None) -> dict[str, int]:
        """Return the longest sequence of each of some axes (all by default), as far as they are known.

        Among them may be keys of the number of samples of an axis (:class:`~cntk_core.ops.language.shapes.Longest`).
        """
        if axes is None:
            axes = [*self.layouts, *(Longest(axis, samples=True).key for axis in self.layouts)]
        known = ((key, self.layouts.get(key.removeprefix(SAMPLES_OF))) for key in axes)
        return {
            key: max(1, layout.frames) if key.startswith(SAMPLES_OF) else longest_sequence(layout)
            for key, layout in known
            if layout is not None
        }

    def rows_for(self, node: Node) -> int:
        """Return the rows on a node's axis, or on that of its first input with one; -1 if they are not known yet."""
        if node.framed and not makes_axis_by_values(node):
            return self.frames.get(node.axis, -1)
        axis = next((child.axis for child in node.inputs if child.framed), None)
        return 1 if axis is None else self.frames.get(axis, -1)

    def place(self, context: OpContext, node: Node) -> None:
        """Put the sequences of a node and of its inputs into its context."""
        context.layouts = tuple(self.layouts.get(child.axis) if child.framed else None for child in node.inputs)
        own = self.layouts.get(node.axis) if node.framed and not makes_axis_by_values(node) else None
        first = next((layout for layout in context.layouts if layout is not None), None)
        context.layout = own if own is not None else first


def _check_single(node: Input, stream: StreamData) -> None:
    """Make sure that an input without sequences is given none.

    Raises:
        DataError: it is.
    """
    rows = stream.data.shape[0]
    if not (stream.layout.is_frames if node.framed else rows == 1):
        given = "sequences" if node.framed else f"{rows} frames"
        raise DataError(f"the input {node.describe_axes()}, but its stream has {given}")


def stream_of(minibatch: Minibatch, node: Input) -> StreamData:
    """Return the stream of an input; case of names does not count.

    Raises:
        DataError: the minibatch has none.
    """
    stream = minibatch.streams.get(node.name)
    if stream is not None:
        return stream
    for name, data in minibatch.streams.items():
        if name.lower() == node.name.lower():
            return data
    known = ", ".join(minibatch.streams)
    raise DataError(f"the minibatch has no stream for the input '{node.name}'", hint=f"Streams: {known}")


def time_steps(layout: SequenceLayout, direction: int) -> Iterator[slice]:
    """Yield the rows of each time step, in the order of a loop: 1 from the first to the last, -1 from the last."""
    for start, count in list(zip(layout.start.tolist(), layout.alive.tolist(), strict=True))[::direction]:
        yield slice(start, start + count)
