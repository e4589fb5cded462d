"""Sections whose values another language gives."""

from __future__ import annotations

import pytest

from cntk_core.config import Config, Content, EvaluatedEntry, parse_text
from cntk_core.errors import ConfigError, Location, MissingKeyError

HERE = Location("r.x", 1, 5)


def text(value: str) -> Content:
    return Content.of_text(value, HERE)


def section(**members: Content | Exception) -> dict[str, EvaluatedEntry]:
    def entry(key: str, content: Content | Exception) -> EvaluatedEntry:
        def find() -> Content:
            if isinstance(content, Exception):
                raise content
            return content

        return EvaluatedEntry(key, Location("r.x", 1, 1), find)

    return {key.lower(): entry(key, content) for key, content in members.items()}


def config(**members: Content | Exception) -> Config:
    return Config(section(**members), where=Location("r.x"))


def test_an_entry_is_evaluated_once_and_not_before_somebody_looks() -> None:
    calls: list[int] = []

    def find() -> Content:
        calls.append(1)
        return text("4")

    top = Config({"n": EvaluatedEntry("n", HERE, find)})
    assert top.keys() == ("n",)
    top.check_variables()
    assert calls == []
    assert top.integer("N") == 4
    assert top.string("n") == "4"
    assert calls == [1]


def test_texts_are_taken_as_they_are() -> None:
    top = config(a=text("$b$ ; c # d"), b=text("1"), default=text("default"))
    assert top.string("a") == "$b$ ; c # d"
    assert "default" not in top


def test_texts_can_be_read_as_arrays() -> None:
    assert config(a=text("0.5*2:0.1")).strings("a") == ("0.5", "0.5", "0.1")


def test_elements_are_not_taken_apart() -> None:
    top = config(a=Content.of_array((text("c:/x"), text("d")), HERE))
    assert top.strings("a") == ("c:/x", "d")
    assert [str(value.where) for value in top.array("a")] == ["r.x:1:5"] * 2


def test_sections_look_outwards() -> None:
    inner = Content.of_section(section(n=text("1"), deep=Content.of_section(section(m=text("2")), HERE)), HERE)
    top = config(Inner=inner, k=text("3"))
    found = top.section("inner").section("deep")
    assert found.name == "Inner:deep"
    assert [found.integer(key) for key in "mnk"] == [2, 1, 3]
    assert [each.name for each in top.sections()] == ["Inner"]


def test_files_of_the_recipe_may_use_its_values_as_variables() -> None:
    child = config(dim=text("7")).child("x=Input($dim$)")
    assert child.string("x") == "Input(7)"


def test_a_text_is_no_section() -> None:
    with pytest.raises(ConfigError, match=r"^r\.x:1:5: a must be a section, not 'n=1'"):
        config(a=text("n=1")).section("a")


def test_what_has_no_place_in_a_recipe() -> None:
    with pytest.raises(ConfigError) as caught:
        config(a=Content.of_other("a function", HERE)).string("a")
    assert str(caught.value) == (
        "r.x:1:5: a is a function, which no key of a recipe takes\n"
        "    Accepted: numbers, texts, true, false, arrays and records of them."
    )


def test_the_listing_says_what_cannot_be_evaluated() -> None:
    inner = Content.of_section(section(n=text("1"), bad=ConfigError("no value")), HERE)
    top = config(s=inner, f=Content.of_other("a function", HERE), z=Content.of_network(object(), HERE))
    assert top.dump(resolved=True) == (
        "configparameters: r.x:f=(a function)\n"
        "configparameters: r.x:s=[n=1; bad=(no value)]\n"
        "configparameters: r.x:z=(a network)\n"
    )


def test_errors_of_the_evaluation_are_those_of_the_look_up() -> None:
    with pytest.raises(ConfigError, match="no value"):
        config(a=ConfigError("no value")).string("a")
    with pytest.raises(MissingKeyError, match="Is 'modelPaht'"):
        config(modelPaht=text("1")).string("modelPath")


def test_a_network_keeps_what_the_builder_wants() -> None:
    mine = object()
    value = config(Net=Content.of_network(mine, HERE)).get("net")
    assert value is not None
    assert value.content is not None
    assert value.content.description is mine


def test_contents_know_where_they_come_from() -> None:
    for made in (
        Content.of_text("4", HERE),
        Content.of_section({}, HERE),
        Content.of_array((text("4"), text("5")), HERE),
        Content.of_other("a function", HERE),
        Content.of_network(object(), HERE),
    ):
        assert made.text.locate(0) == HERE


def test_variables_of_written_entries_are_checked_beside_evaluated_ones() -> None:
    mixed = {**section(n=text("4")), **parse_text("m=$lost$", file="r.cntk")._entries}
    with pytest.raises(ConfigError) as caught:
        Config(mixed).check_variables()
    assert caught.value.where == Location("r.cntk", 1, 3)
