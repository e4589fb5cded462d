"""Model formats of plugins: which one reads a file, which writes it, and what happens where none does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_core.errors import ModelFormatError, PluginError
from cntk_core.model import Model
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.model_formats import ModelFiles
from cntk_kit_recipes.cli import main
from cntk_testing.networks import classifier

pytestmark = pytest.mark.usefixtures("tools")

FORMAT = '''
import numpy as np
from cntk_core.api import *
from cntk_core.network.model_file import load_model, save_model


class Wrapped(ModelFormat):
    """Ours behind a word."""

    requires_api = "1.0"
    suffixes = (".wrapped",)

    def recognizes(self, begin, path):
        return begin.startswith(b"WRAPPED")

    def load(self, path, find_op, dtype=None):
        inner = path.with_suffix(".inner")
        inner.write_bytes(path.read_bytes()[7:])
        try:
            return load_model(inner, find_op, dtype)
        finally:
            inner.unlink()

    def save(self, network, path):
        save_model(network, path)
        path.write_bytes(b"WRAPPED" + path.read_bytes())
'''
WHEEL = {"cntk.model_formats": {"wrapped": "my_format:Wrapped"}}
READ_ONLY = FORMAT[: FORMAT.index("    def save")]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    ModelFiles(PluginManager(load_hooks=False).registry).save(classifier("float32").network, "m.dnn")


def files(**arguments) -> ModelFiles:
    return ModelFiles(PluginManager(**arguments).registry)


def test_from_a_wheel_by_the_suffix_there_and_back(install, capsys):
    install("my-format", WHEEL, FORMAT)
    assert main(["convert", "m.dnn", "-o", "m.wrapped"]) == 0
    assert Path("m.wrapped").read_bytes().startswith(b"WRAPPED")
    assert main(["convert", "m.wrapped", "-o", "back.dnn"]) == 0
    assert Path("back.dnn").read_bytes() == Path("m.dnn").read_bytes()
    assert main(["convert", "m.dnn", "-o", "other", "--format", "wrapped"]) == 0
    assert Path("other").read_bytes() == Path("m.wrapped").read_bytes()
    assert files().is_model("m.wrapped")


def test_wherever_a_model_is_named(install, capsys):
    install("my-format", WHEEL, FORMAT)
    files().save(classifier("float32").network, "m.wrapped")
    assert main(["dump", "m.wrapped", "--no-values"]) == 0
    assert main(["plot", "m.wrapped", "-o", "-"]) == 0
    text = "command = D\nD = [ action = dumpNodes ; modelPath = m.wrapped ; outputFile = nodes.txt ]\n"
    Path("r.cntk").write_text(text, encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert Path("nodes.txt").is_file()
    Path("e.mel").write_text('m = LoadModel("m.wrapped")\nSaveModel(m, "e.dnn")\n', encoding="utf-8")


def test_in_python(install):
    # The engine is no wheel of the folder of this test, so another one is given.
    install("my-format", WHEEL, FORMAT)
    files().save(classifier("float32").network, "m.wrapped")
    with pytest.raises(PluginError, match="no engine named 'cpu'"):
        Model.load("m.wrapped", engine="cpu")


def test_from_a_file():
    Path("p.py").write_text(FORMAT, encoding="utf-8")
    with_file = files(plugin_files=["p.py"])
    with_file.save(classifier("float32").network, "m.wrapped")
    assert len(with_file.load("m.wrapped")) == len(with_file.load("m.dnn"))
    assert not files().is_model("m.wrapped")


def test_from_a_hook(tmp_path):
    class Offers:
        @hookimpl
        def cntk_register(self, registry):
            from cntk_model_cntk1.dbn_format import DbnFormat

            registry.model_formats.add("another", DbnFormat)

    assert "another" in PluginManager(listeners=[Offers()]).registry.model_formats


def test_a_file_that_nobody_knows(install):
    install("my-format", WHEEL, FORMAT)
    install("bad-format", {"cntk.model_formats": {"bad": "bad_format:Bad"}}, "import missing_library\n")
    Path("x.bin").write_bytes(b"something else")
    with pytest.raises(ModelFormatError) as caught:
        files().load("x.bin")
    assert str(caught.value) == (
        "'x.bin' is no model: no format recognizes it\n"
        "    Formats: CNTK-1, DBN (cntk-model-cntk1 0.1.0), cntk-core (cntk-core 0.1.0), wrapped (my-format 0.1.0)\n"
        "    model format 'bad' from bad-format 0.1.0 could not be imported: No module named 'missing_library'"
    )


def test_a_broken_format_does_not_keep_others_from_reading(install):
    install("bad-format", {"cntk.model_formats": {"bad": "bad_format:Bad"}}, "import missing_library\n")
    text = FORMAT.replace('return begin.startswith(b"WRAPPED")', "return 1 / 0")
    install("a-format", {"cntk.model_formats": {"a": "a_format:Wrapped"}}, text)
    install("my-format", WHEEL, FORMAT)
    files().save(classifier("float32").network, "m", "wrapped")
    assert len(files().load("m")) == len(files().load("m.dnn"))


def test_a_format_that_fails_to_look_knows_no_file(install):
    install("a-format", {"cntk.model_formats": {"a": "a_format:Wrapped"}}, FORMAT.replace("return begin", "1 / 0 #"))
    Path("strange").write_bytes(b"STRANGE")
    assert not files().is_model("strange")
    with pytest.raises(ModelFormatError):
        files().load("strange")


def test_a_format_that_gives_no_network(capsys):
    Path("p.py").write_text(
        "from cntk_core.api import ModelFormat\nclass Odd(ModelFormat):\n"
        "    def recognizes(self, begin, path): return begin == b'ODD'\n"
        "    def load(self, path, find_op, dtype=None): pass\n",
        encoding="utf-8",
    )
    Path("m.odd").write_bytes(b"ODD")
    assert main(["convert", "m.odd", "-o", "m.dnn", "--plugin", "p.py"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: Odd.load of the plugin file 'p.py' returned None, not a network"
    assert said[1].endswith("p.py:4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x", "--format", "wraped"], "no model format named 'wraped'; did you mean 'wrapped'?"),
        (["-o", "x", "--format", "sealed"], "models in the format of Wrapped are read, not written"),
    ],
)
def test_formats_that_do_not_write(arguments, message, install, capsys):
    install("my-format", WHEEL, FORMAT)
    install("sealed", {"cntk.model_formats": {"sealed": "sealed:Wrapped"}}, READ_ONLY)
    assert main(["convert", "m.dnn", *arguments]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"error: {message}"
    assert not Path("x").exists()


def test_a_dbn_file_is_a_model(capsys):
    assert main(["convert", "m.dnn", "-o", "m.dbn"]) == 0
    assert Path("m.dbn").read_bytes().startswith(b"DBN\0")
    assert main(["convert", "m.dbn", "-o", "back.dnn"]) == 0
    old, new = files().load("m.dnn"), files().load("back.dnn")
    assert sum(one.value.size for one in new.parameters) >= sum(one.value.size for one in old.parameters)
    Path("damaged.dbn").write_bytes(b"DBN\0BDBN")
    assert files().is_model("damaged.dbn")
    assert main(["dump", "damaged.dbn"]) == 1
    assert "damaged.dbn" in capsys.readouterr().err


def test_what_cannot_be_opened(tmp_path):
    assert not files().is_model("not-there")
    with pytest.raises(ModelFormatError) as caught:
        files().load("not-there")
    assert str(caught.value) == "the model 'not-there' cannot be read: No such file or directory"
    with pytest.raises(ModelFormatError) as caught:
        files().load("/dev/zero")
    assert str(caught.value) == "the model '/dev/zero' cannot be read: it is no file"


def test_where_there_is_no_format_nothing_is_written(monkeypatch):
    made = files(load_hooks=False)
    monkeypatch.setattr(made, "_usable", list)
    with pytest.raises(ModelFormatError, match=r"^the model 'x\.dnn' cannot be written: there is no format"):
        made.writer("x.dnn")
