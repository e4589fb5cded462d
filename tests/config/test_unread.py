"""Keys that nothing reads, as the top level of a recipe gathers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.config import Config, UnreadKeys, load_recipe, option, options, parse_text
from cntk_core.errors import Location, OptionError, Problems

NOTE = "Note: nothing reads these keys (with strict=true they are errors): "


@options
class Colours:
    red: int = option(default=0, aliases=("scarlet",))


@options
class Shapes:
    circle: int = option(default=0)
    inner: Colours | None = None


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def load(text: str, *more: str) -> Config:
        Path("r.cntk").write_text(text)
        return load_recipe(["configFile=r.cntk", *more])

    return load


def test_each_is_told_once_with_its_place(recipe):
    top = recipe("a=[qqqq=1 ; circle=2]\nb=[zzzz=3]")
    for _ in range(2):
        assert top.section("a").bind(Shapes, what="block a").circle == 2
    top.section("b").bind(Colours, what="block b")
    assert top.unread is not None
    assert top.unread.take() == f"{NOTE}'qqqq' of block a (r.cntk:1:4), 'zzzz' of block b (r.cntk:2:4)"
    assert top.unread.take() == ""
    top.section("b").with_entries("yyyy=3").bind(Colours, what="block b")
    assert top.unread.take().startswith(f"{NOTE}'yyyy' of block b (")


def test_blocks_in_blocks(recipe):
    top = recipe("a=[inner=[qqqq=1]]")
    top.section("a").bind(Shapes, what="block a")
    assert top.unread is not None
    assert top.unread.take() == f"{NOTE}'qqqq' of 'inner' of block a (r.cntk:1:11)"


def test_one_of_a_block_that_was_read_before_is_an_error_at_once(recipe):
    top = recipe("a=[]\nb=[CIRCLE=3]")
    top.section("a").bind(Shapes, what="block a")
    with pytest.raises(OptionError) as caught:
        top.section("b").bind(Colours, what="block b")
    assert str(caught.value) == (
        "r.cntk:2:4: block b has no option 'CIRCLE', but block a has\n    Move it there, or remove it."
    )


def test_of_a_block_that_is_read_later_when_they_are_told(recipe):
    top = recipe("a=[]\nb=[circle=3 ; inner=4]")
    top.section("b").bind(Colours, what="block b")
    top.section("a").bind(Shapes, what="block a")
    assert top.unread is not None
    with pytest.raises(Problems) as caught:
        top.unread.take()
    assert [error.message for error in caught.value.errors] == [
        "block b has no option 'circle', but block a has",
        "block b has no option 'inner', but block a has",
    ]


def test_what_is_told_does_not_belong_to_its_own_block():
    unread = UnreadKeys()
    unread.offer("block a", ["circle"])
    unread.add("circle", "block a", Location("r", 1, 1))
    assert unread.take() == f"{NOTE}'circle' of block a (r:1:1)", "a variant of the block may not have it"


def test_errors_where_asked_for(recipe):
    with pytest.raises(OptionError, match="block a has no option 'qqqq'"):
        recipe("a=[qqqq=1]", "strict=true").section("a").bind(Shapes, what="block a")


def test_errors_where_nobody_tells_them():
    with pytest.raises(OptionError, match="block a has no option 'qqqq'"):
        parse_text("qqqq=1").bind(Shapes, what="block a")
