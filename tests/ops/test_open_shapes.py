"""Dimensions whose sizes each minibatch brings, in shapes and in the rules of ops."""

from __future__ import annotations

import pickle

import attrs
import pytest

from cntk_core.errors import ShapeError, WrongResult
from cntk_core.ops.families.reshaping import ReshapeAttributes
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.language.op import NoAttributes
from cntk_core.ops.language.open_shapes import complete_shapes, infer_shape
from cntk_core.ops.language.shapes import (
    FREE,
    Free,
    Longest,
    broadcast,
    fits,
    is_free,
    longest_axes,
    placed,
    samples_axis,
    show,
    with_lengths,
)
from cntk_core.ops.table import core_ops

TABLE = core_ops()
PLUS, TIMES = TABLE.find("", "Plus"), TABLE.find("", "Times")
AXIS, OTHER, SAMPLES = Longest("*"), Longest("t"), Longest("*", samples=True)


def test_free_dimensions_are_told_apart_by_name_and_place():
    (first, second, three, named) = placed((FREE, FREE, 3, Free("height")))
    assert three == 3
    assert first != second
    assert placed((5, FREE, 3, 1))[1] == second
    assert placed((FREE,)) != placed((FREE, 3))
    assert placed((Free("height"),))[0] == named
    assert placed((Free("width"),))[0] != named
    for dim in (first, second, named):
        assert dim < 0
        assert len(dim.tried) == 2
        assert dim.tried[0] != dim.tried[1]
        assert all(size > 0 and size % 40320 == 0 for size in dim.tried)
        assert pickle.loads(pickle.dumps(dim)) == dim
        assert pickle.loads(pickle.dumps(dim)).tried == dim.tried
    assert str(first) == repr(first) == "?"
    assert is_free((3, first))
    assert not is_free((3, AXIS))


@pytest.mark.parametrize(
    ("shape", "sizes", "expected"),
    [
        ((FREE, 3), (7, 3), True),
        ((FREE, 3), (1, 3), True),
        ((FREE, 3), (0, 3), False),
        ((FREE, 3), (7, 4), False),
        ((FREE, 3), (7,), False),
        ((3,), (3,), True),
    ],
)
def test_sizes_that_fit(shape, sizes, expected):
    assert fits(shape, sizes) is expected


def test_lengths_of_axes():
    assert longest_axes((AXIS, 3, OTHER, AXIS)) == {"*", "t"}
    assert with_lengths((AXIS, 3, OTHER), {"*": 7, "t": 5}) == (7, 3, 5)
    assert samples_axis((SAMPLES, 3)) == "*"
    assert samples_axis((AXIS, 3)) is None
    assert samples_axis((3, SAMPLES)) is None
    assert samples_axis(()) is None
    assert Longest("*") == AXIS
    assert len({AXIS, OTHER, SAMPLES}) == 3
    copied = pickle.loads(pickle.dumps(SAMPLES))
    assert (copied.axis, copied.samples, copied.key) == ("*", True, SAMPLES.key)


def test_shapes_are_shown_as_cntk_does():
    assert show((4, 5)) == "[5 x 4]"
    assert show((4, 5), framed=True) == "[5 x 4 x *]"
    assert show(()) == "[1]"
    assert show((), framed=True) == "[1 x *]"
    assert show((AXIS, 2)) == "[2 x ?]"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(3,), (2, 3)], (2, 3)),
        ([(2, 1), (3,)], (2, 3)),
        ([(1,), (1, 1)], (1, 1)),
        ([(0,), (3,)], (3,)),
        ([(0,), (1,)], (1,)),
        ([(), (2,), (1, 2)], (1, 2)),
        ([], ()),
    ],
)
def test_shapes_of_operands_together(shapes, expected):
    assert broadcast(shapes) == expected


@pytest.mark.parametrize(
    ("op", "attributes", "shapes", "expected"),
    [
        ("Plus", None, [(AXIS, 3), (3,)], (AXIS, 3)),
        ("Plus", None, [(AXIS, 1), (OTHER,)], (AXIS, OTHER)),
        ("Times", None, [(3, 5), (AXIS, 3)], (AXIS, 5)),
        ("Times", None, [(SAMPLES, 5), (3, SAMPLES)], (3, 5)),
        ("Slice", SliceAttributes(0, 2, 2), [(AXIS, 3)], (2, 3)),
        ("Reshape", ReshapeAttributes((3, 1), 1, 2), [(AXIS, 3)], (AXIS, 1, 3)),
    ],
)
def test_what_is_known_of_a_result(op, attributes, shapes, expected):
    found = TABLE.find("", op)
    inferred = infer_shape(found, shapes, found.attributes() if attributes is None else attributes)
    assert inferred == expected
    assert [type(dim) for dim in inferred] == [type(dim) for dim in expected]


def test_a_size_that_follows_from_a_free_one_is_free():
    (free,) = placed((FREE,))
    op = TABLE.find("", "Slice")
    half = infer_shape(op, [(free, 3)], SliceAttributes(0, 0, 2, 2))
    assert isinstance(half[0], Free)
    assert half[1] == 3
    assert half[0] != free
    assert half[0].tried == tuple(size // 2 for size in free.tried)


@pytest.mark.parametrize(
    ("dim", "what"), [(AXIS, "the longest sequence"), (SAMPLES, "the number of samples")], ids=["length", "samples"]
)
def test_a_size_that_follows_from_a_length_is_refused(dim, what):
    with pytest.raises(ShapeError) as error:
        infer_shape(TABLE.find("", "Slice"), [(dim, 3)], SliceAttributes(0, 0, 2, 2))
    assert error.value.message == f"its dimensions would depend on {what} of a minibatch in a way that it cannot"


def test_sizes_that_were_tried_do_not_show_in_messages():
    with pytest.raises(ShapeError) as error:
        infer_shape(PLUS, [(AXIS, 3), (7, 3)], NoAttributes())
    assert error.value.message == "the shapes [3 x ?] and [3 x 7] do not fit: axis 2 is 7 and ?"
    with pytest.raises(ShapeError) as error:
        infer_shape(PLUS, [(AXIS, 3), (OTHER, 3)], NoAttributes())
    assert error.value.message == "the shapes [3 x ?] and [3 x ?] do not fit: axis 2 is ? and ?"


@pytest.mark.parametrize("found", [None, 3, (1.5,), ("3",), [2, None]])
def test_a_rule_that_gives_no_shape_is_named(found):
    op = attrs.evolve(PLUS, infer=lambda shapes, attributes: found)
    with pytest.raises(WrongResult) as error:
        infer_shape(op, [(3,), (3,)], NoAttributes())
    assert f"returned {found!r} as the shape of Plus, not a tuple of whole numbers" in str(error.value)


def test_a_list_is_a_shape():
    assert infer_shape(attrs.evolve(PLUS, infer=lambda shapes, attributes: [2, 3]), [(3,), (3,)], NoAttributes()) == (
        2,
        3,
    )


def test_parameters_beside_open_dimensions():
    times = TIMES.attributes()
    assert complete_shapes(TIMES, [(0, 5), (AXIS, 3)], times) == [(3, 5), (AXIS, 3)]
    assert complete_shapes(TIMES, [(0, 5), (4, 3)], times) == [(3, 5), (4, 3)]
    (free,) = placed((FREE,))
    for dim, size in ((AXIS, "long as the longest sequence"), (SAMPLES, "long as the number of samples")):
        with pytest.raises(ShapeError) as error:
            complete_shapes(TIMES, [(0, 5), (3, dim)], times)
        assert str(error.value) == (
            f"a parameter would be as {size} of a minibatch\n"
            "    Parameters have fixed dimensions: give them, or multiply along another axis."
        )
    with pytest.raises(ShapeError, match=r"^a parameter would be as large as a free dimension of a minibatch"):
        complete_shapes(TIMES, [(0, 5), (3, free)], times)
