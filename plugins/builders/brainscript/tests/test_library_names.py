"""Every name of the core library is there and takes the parameters that the table lists, with their defaults."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path

import attrs
import pytest
from cntk_builder_brainscript.library_table import definitions
from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.syntax import Argument, Expression, Function, RecordLiteral

from cntk_core.api.builders import SourceText

ROOT = Path(__file__).parents[4]
LIBRARY = files("cntk_builder_brainscript").joinpath("library")
TABLE = definitions()

NAMES_OF_THE_ORIGINAL = 299


def library_text(name, where=None):
    return SourceText.of(LIBRARY.joinpath(name).read_text(encoding="utf-8"), f"<library>/{name}")


def members_of(record, prefix=""):
    for name, member in record.members.items():
        yield prefix + name, member.value
        if isinstance(member.value, RecordLiteral):
            yield from members_of(member.value, f"{prefix}{name}.")


def structure(value):
    """An expression without its place."""
    if isinstance(value, Expression):
        fields = [field.name for field in attrs.fields(type(value)) if field.name not in ("source", "offset")]
        return (type(value).__name__, *(structure(getattr(value, name)) for name in fields))
    if isinstance(value, Argument):
        return structure(value.value)
    if isinstance(value, tuple):
        return tuple(structure(item) for item in value)
    if hasattr(value, "items"):
        return tuple((name, structure(item)) for name, item in value.items())
    return value


@pytest.fixture(scope="module")
def library():
    return dict(members_of(parse(library_text("cntk.core.bs"), library_text)))


def test_the_table_has_every_name_of_the_original_once():
    original = [definition.name for definition in TABLE if definition.section != "Beyond the original"]
    assert len(original) == NAMES_OF_THE_ORIGINAL
    names = [definition.name for definition in TABLE]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("definition", TABLE, ids=[definition.name for definition in TABLE])
def test_a_definition_takes_the_listed_parameters(definition, library):
    found = library[definition.name]
    if not definition.parameters:
        assert not isinstance(found, Function)
        return
    listed = parse(SourceText.of(f"f {definition.parameters} = 0")).members["f"].value
    assert isinstance(found, Function)
    assert found.parameters == listed.parameters
    assert structure(found.optional) == structure(listed.optional)
    assert list(found.optional) == list(listed.optional)


def test_names_for_recipes_are_in_the_table(library):
    listed = {definition.name for definition in TABLE}
    unlisted = {name for name in library if name not in listed and not name.rpartition(".")[2].startswith("_")}
    assert not unlisted


def test_every_file_of_the_library_is_included():
    included = set()

    def include(name, where):
        included.add(name)
        return library_text(name)

    parse(library_text("cntk.core.bs"), include)
    assert included | {"cntk.core.bs"} == {file.name for file in LIBRARY.iterdir() if file.name.endswith(".bs")}


def test_every_definition_has_a_meaning_and_an_example_with_its_result():
    for definition in TABLE:
        assert definition.meaning.endswith("."), definition.name
        assert definition.example, definition.name
        assert definition.result, definition.name


def test_the_reference_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("library_page", ROOT / "tools" / "library_page.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = tool.PAGE.read_text(encoding="utf-8")
    assert current == tool.page(current), "out of date: run python tools/library_page.py"
