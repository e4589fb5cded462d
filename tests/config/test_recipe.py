"""The command line: files, overrides, current directory, includes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.config import COMMAND_LINE, load_recipe, parse_text, read_source, split_command_line
from cntk_core.errors import CntkError, Location


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def raised(*arguments: str) -> str:
    with pytest.raises(CntkError) as caught:
        load_recipe(arguments)
    return str(caught.value)


def test_split_command_line() -> None:
    line = split_command_line(["CONFIGFILE=a+b", "x=1", "currentdirectory=d", "configFile=c"])
    assert line.files == ("a", "b", "c")
    assert line.overrides == ("x=1", "currentdirectory=d")
    assert line.directory == Path("d")
    assert [argument.directory for argument in line.arguments if argument.is_file] == [None, None, Path("d")]
    assert line.arguments[1].where == Location(COMMAND_LINE, 1, 14)


def test_files_and_overrides(folder: Path) -> None:
    (folder / "a.cntk").write_text("# a\nx=1\ny=1\nTrain=[\n SGD=[ maxEpochs=9 ; rate=1 ]\n]\n")
    (folder / "b.cntk").write_text("y=2")
    config = load_recipe(["configFile=a.cntk+b.cntk", "z=3", "Train=[SGD=[maxEpochs=2]]", "flag"])
    assert [config.integer(key) for key in "xyz"] == [1, 2, 3]
    assert config.boolean("flag")
    sgd = config.section("Train").section("SGD")
    assert (sgd.integer("maxEpochs"), sgd.real("rate")) == (2, 1.0)
    assert str(sgd.location("rate")) == "a.cntk:5:22"
    assert str(sgd.location("maxEpochs")) == f"{COMMAND_LINE}:3:13"
    assert str(config.location("y")) == "b.cntk:1:1"
    assert config.where == Location("a.cntk")
    assert config.current_directory is None


def test_a_sign_in_the_name_of_a_file_that_is_there(folder: Path) -> None:
    """``+`` cuts where no file has it in its name; the longest such name counts."""
    (folder / "b+c").mkdir()
    (folder / "b+c" / "x.cntk").write_text("x=1")
    (folder / "y.cntk").write_text("y=2\nz=0")
    (folder / "z+.cntk").write_text("z=3")
    config = load_recipe(["configFile=b+c/x.cntk+y.cntk+z+.cntk"])
    assert [config.integer(key) for key in "xyz"] == [1, 2, 3]
    assert str(config.location("y")) == "y.cntk:1:1"
    assert load_recipe(["currentDirectory=b+c", "configFile=x.cntk+../y.cntk"]).integer("y") == 2
    assert load_recipe(["configFile=b+c/x.cntk"], directory=folder).integer("x") == 1
    (folder / "i.cntk").write_text("include=b+c/x.cntk+y.cntk\n")
    assert [load_recipe(["configFile=i.cntk"]).integer(key) for key in "xy"] == [1, 2]
    # What is there in parts only is cut, and the part that is not there is told.
    assert raised("configFile=y.cntk+b+d/x.cntk").startswith("<command line>:1:19: cannot read the config file 'b'")


def test_the_order_of_arguments_decides(folder: Path) -> None:
    (folder / "a.cntk").write_text("x=file")
    assert load_recipe(["x=before", "configFile=a.cntk"]).string("x") == "file"
    assert load_recipe(["configFile=a.cntk", "x=after"]).string("x") == "after"


def test_current_directory(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "a.cntk").write_text("x=outer\ninclude=more.cntk")
    (folder / "sub" / "a.cntk").write_text("x=inner")
    (folder / "sub" / "more.cntk").write_text("y=included")
    before = load_recipe(["configFile=a.cntk", "currentDirectory=sub"])
    assert (before.string("x"), before.string("y")) == ("outer", "included")
    assert before.current_directory == Path("sub")
    assert before.string("currentDirectory") == "sub"
    assert load_recipe(["currentDirectory=sub", "configFile=a.cntk"]).string("x") == "inner"
    assert load_recipe(["configFile=a.cntk"], directory=folder / "sub").string("x") == "inner"
    assert Path.cwd() == folder


def test_includes(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "a.cntk").write_text("x=1\nT=[\ninclude=sub/b.cntk+c.cntk\n]\n include=d\nlast=1\n")
    (folder / "sub" / "b.cntk").write_text("b=1\ninclude=e.cntk\nafter=1")
    (folder / "sub" / "e.cntk").write_text("e=1")
    (folder / "c.cntk").write_text("c=1\ninclude=a.cntk\ninclude=c.cntk")
    config = load_recipe(["configFile=a.cntk"])
    section = config.section("T")
    assert section.keys() == ("b", "e", "after", "c")
    assert str(section.location("e")) == "sub/e.cntk:1:1"
    assert str(section.location("after")) == "sub/b.cntk:3:1"
    assert str(config.location("last")) == "a.cntk:6:1"
    assert config.string("include") == "d"
    assert config.warnings == (
        "c.cntk:2:9: 'a.cntk' is not included again; it was read before (<command line>:1:12)",
        "c.cntk:3:9: 'c.cntk' is not included again; it was read before (a.cntk:3:20)",
    )


def test_names_without_a_file_and_files_that_were_read_leave_the_rest(folder: Path) -> None:
    for name in "abc":
        (folder / name).write_text(f"{name}=1\n")
    (folder / "t.cntk").write_text("include=a+ +\t+b+a+c\n")
    config = load_recipe(["configFile=+t.cntk+"])
    assert config.keys() == ("a", "b", "c")
    assert config.warnings == ("t.cntk:1:17: 'a' is not included again; it was read before (t.cntk:1:9)",)


def test_recipes_in_other_folders(folder: Path) -> None:
    """An include counts from the current directory; what is not there may lie beside the file."""
    (folder / "sub").mkdir()
    (folder / "sub" / "a.cntk").write_text("include=b.cntk\n")
    (folder / "sub" / "b.cntk").write_text("x=beside")
    assert load_recipe(["configFile=sub/a.cntk"]).string("x") == "beside"
    assert load_recipe(["currentDirectory=sub", "configFile=a.cntk"]).where == Location("sub/a.cntk")
    (folder / "b.cntk").write_text("x=here")
    assert load_recipe(["configFile=sub/a.cntk"]).string("x") == "here"


def test_there_is_an_end_to_included_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_core.config.recipe._MAX_INCLUDED", 3)
    for name in "abc":
        (folder / name).write_text(f"{name}=1\n")
    (folder / "t.cntk").write_text("include=a+b\n")
    assert load_recipe(["configFile=t.cntk"]).keys() == ("a", "b")
    (folder / "t.cntk").write_text("include=a+b+c\n")
    assert raised("configFile=t.cntk") == "t.cntk:1:13: too many files are included\n    At most 3."


def test_include_on_the_command_line(folder: Path) -> None:
    (folder / "a.cntk").write_text("x=1")
    (folder / "b.cntk").write_text("x=2")
    assert load_recipe(["configFile=a.cntk", "include=b.cntk"]).integer("x") == 2


def test_long_chain_of_includes(folder: Path) -> None:
    for number in range(900):
        (folder / f"{number}").write_text(f"include={number + 1}")
    (folder / "900").write_text("x=1")
    assert load_recipe(["configFile=0"]).integer("x") == 1


def test_command_line_text_is_not_stripped_of_comments(folder: Path) -> None:
    (folder / "a.cntk").write_text("x=1")
    assert load_recipe(["configFile=a.cntk", "x=a #b"]).string("x") == "a #b"


def test_errors(folder: Path) -> None:
    (folder / "a.cntk").write_text("x=1\n")
    (folder / "b.cntk").write_text("x=1\ninclude=$dir$/c.cntk")
    (folder / "d.cntk").write_text("include=a1.cntk")
    (folder / "e.cntk").write_text("T=[\n x=1\n")
    paths = "    Relative paths count from currentDirectory, or from where the command was started."
    assert raised("x=1") == "no config file is named\n    cntk configFile=recipe.cntk [key=value ...]"
    assert raised("configFile=") == "no config file is named\n    cntk configFile=recipe.cntk [key=value ...]"
    assert raised("x=1", "configFile=a.cnkt") == (
        "<command line>:2:12: cannot read the config file 'a.cnkt': No such file or directory; "
        f"did you mean 'a.cntk'?\n{paths}"
    )
    assert raised("configFile=b.cntk+a.cntk", "configFile=./a.cntk") == (
        "<command line>:2:12: the config file './a.cntk' is named twice\n"
        "    It is already named at <command line>:1:19; remove one of them."
    )
    assert raised("configFile=b.cntk") == (
        "b.cntk:2:9: variables cannot be used in an include line\n"
        "    Write the path out; relative paths count from the current directory."
    )
    assert raised("configFile=d.cntk") == (
        "d.cntk:1:9: cannot read the included file 'a1.cntk': No such file or directory; "
        f"did you mean 'a.cntk'?\n{paths}"
    )
    assert raised("configFile=e.cntk", "y=1") == (
        "e.cntk:1:3: no closing ']' for this '['\n    Add a ']' where the block ends."
    )
    assert raised("configFile=a.cntk", "x=") == (
        "<command line>:2:1: no value is given for 'x'\n"
        '    Write x="" for an empty text. The bracket of a block stands on the same line as its name.'
    )
    assert raised("configFile=.") == (f"<command line>:1:12: cannot read the config file '.': Is a directory\n{paths}")
    assert "embedded null byte" in raised("configFile=a\0b")


def test_read_source(folder: Path) -> None:
    (folder / "net.ndl").write_text("# net\nx=Input($dim$) # in\n")
    config = parse_text("dim=4\nTrain=[dim=5]")
    assert read_source(Path("net.ndl")).text == "x=Input($dim$)"
    assert read_source(Path("net.ndl"), config.section("Train")).text == "x=Input(5)"
