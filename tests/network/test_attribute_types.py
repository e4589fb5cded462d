"""Which values fit the types that the attributes of an operation declare."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest

from cntk_core.network.attribute_types import wrong_attribute


@attrs.frozen
class Attributes:
    whole: int = 0
    real: float = 0.0
    yes: bool = False
    word: str = ""
    nothing: None = None
    maybe: int | None = None
    choice: Literal["a", "b"] = "a"
    many: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    several: tuple[float | None, ...] = ()
    thing: Any = None
    own: complex = 0j


GOOD = {
    "whole": [0, -3, True],
    "real": [1.5, 2, True],
    "yes": [True, False],
    "word": ["", "x"],
    "nothing": [None],
    "maybe": [None, 4],
    "choice": ["a", "b"],
    "many": [(), (1,), (1, 2, 3)],
    "pair": [(1, "x")],
    "several": [(), (1.5, None, 2)],
    "thing": [object(), None],
    "own": ["anything"],
    "unknown": [1],
}
BAD = {
    "whole": [1.0, "1", None],
    "real": ["1", None],
    "yes": [0, 1, "true", None],
    "word": [1, None, ("x",)],
    "nothing": [0, ""],
    "maybe": ["", 1.5],
    "choice": ["c", None],
    "many": [[1], (1.5,), (1, "x"), 1],
    "pair": [(1,), (1, "x", 2), ("x", 1), [1, "x"]],
    "several": [("x",), (1.5, "x")],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_what_fits(name, value):
    assert wrong_attribute(Attributes, {name: value}) == ""


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_what_does_not(name, value):
    assert wrong_attribute(Attributes, {"yes": True, name: value}) == name


def test_the_first_is_named():
    assert wrong_attribute(Attributes, {"whole": 1, "word": 2, "yes": 3}) == "word"


def test_annotations_that_cannot_be_read_are_not_looked_at():
    class Strange:
        x: Nowhere  # noqa: F821

    assert wrong_attribute(Strange, {"x": 1}) == ""
