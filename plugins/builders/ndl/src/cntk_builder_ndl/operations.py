"""The functions of operations whose arguments are more than inputs, but for those for images."""

from __future__ import annotations

from cntk_builder_ndl.leaves import image_shape
from cntk_builder_ndl.making import Made, make_operation, read_settings
from cntk_builder_ndl.reading import Reader
from cntk_core.api import Op, to_cntk


def make_row_slice(reader: Reader, op: Op) -> Made:
    """Make the node of ``RowSlice``."""
    reader.expect(3)
    start = reader.whole(0, "the first row")
    rows = reader.whole(1, "the number of rows", least=1)
    return Made(make_operation(reader, op, begin=start, end=start + rows, axis=1), reader.nodes(2))


def make_row_repeat(reader: Reader, op: Op) -> Made:
    """Make the node of ``RowRepeat``."""
    reader.expect(2)
    times = reader.whole(1, "the number of repetitions", least=1)
    return Made(make_operation(reader, op, num_repeats=times), reader.nodes(0, 1))


def make_reshape(reader: Reader, op: Op) -> Made:
    """Make the node of ``Reshape``."""
    reader.expect(2)
    rows = reader.whole(1, "the number of rows")
    image = [reader.option_whole(key, 0) for key in ("imageWidth", "imageHeight", "imageChannels")]
    shape = image_shape(reader, image)
    return Made(make_operation(reader, op, rows=rows, image=to_cntk(shape) if all(image) else ()), reader.nodes(0, 1))


def make_delay(reader: Reader, op: Op) -> Made:
    """Make the node of ``PastValue`` or ``FutureValue``; a number of columns after the rows means nothing any more."""
    reader.expect(2, 3)
    rows = reader.whole(0, "the number of rows")
    if reader.count == 3:
        reader.whole(1, "the number of columns")
    step = reader.option_whole("timeStep", 1)
    old_step = reader.option_whole("delayTime", 1)
    start = reader.option_number("defaultHiddenActivity", 0.1)
    start = reader.option_number("defaultHiddenActivation", start)
    node = make_operation(
        reader,
        op,
        dims=(rows,) if rows else (),
        time_step=old_step if step == 1 else step,
        default_hidden_activation=start,
    )
    return Made(node, reader.nodes(reader.count - 1))


def make_cosines(reader: Reader, op: Op) -> Made:
    """Make the node of ``CosDistanceWithNegativeSamples``."""
    reader.expect(4)
    shift = reader.whole_or_constant(2, "the shift")
    negatives = reader.whole_or_constant(3, "the number of negative samples")
    return Made(make_operation(reader, op, shift=shift, negatives=negatives), reader.nodes(0, 2))


_PENALTIES = {
    "substitution_penalty": "subPen",
    "deletion_penalty": "delPen",
    "insertion_penalty": "insPen",
}


def make_edit_distance(reader: Reader, op: Op) -> Made:
    """Make the node of ``EditDistanceError``; its options have the short words of BrainScript."""
    reader.expect(2)
    return Made(make_operation(reader, op, **read_settings(reader, op, _PENALTIES)), reader.nodes())
