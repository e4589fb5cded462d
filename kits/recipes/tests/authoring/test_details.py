"""``cntk plugins show``, and the table for programs."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import attrs
import pytest

from cntk_core.api import Config, Schedule, option, options
from cntk_core.errors import MissingPluginError
from cntk_core.network.model_file import save_model
from cntk_core.network.network import Network
from cntk_core.records.origin import Origin
from cntk_kit_recipes.authoring.details import _fields_of, describe_plugins, type_in_words, value_as_written
from cntk_kit_recipes.cli import main

LEARNER = '''
from cntk_core.api import Learner, option, options


@options
class SignsOptions:
    beta1: float = option(default=0.9, doc="share of the old average")
    decay: float = option(doc="of weights", aliases=("weightDecay",))


class Signs(Learner):
    """Steps by signs.

    Twice as slow as it looks.
    """

    options = SignsOptions
    requires_api = "1.0"

    def scalars(self, context):
        return {}

    def rule(self, m, value, gradient, slots, scalars):
        return value, {}


class Reading(Signs):
    """It reads its block itself."""

    @classmethod
    def configure(cls, block, what):
        return SignsOptions(decay=0.0)
'''

OPS = '''
"""Soft things."""
import attrs
from cntk_core.api import elementwise_op

requires_api = "1.0"


@attrs.frozen
class SoftAttributes:
    scale: float = 1.0


@elementwise_op("Soft", attributes=SoftAttributes, aliases={"ndl": ("Softer",)})
def soft(m, a, x):
    """Softens."""
    return x * a.scale


@elementwise_op("Mild")
def mild(m, a, x):
    """Is mild."""
    return x
'''

HOOKS = '''
"""Watches."""
from cntk_core.api import hookimpl


@hookimpl
def cntk_job_begin(job):
    pass
'''


@pytest.fixture
def wheels(install, site):
    install("cntk-learner-signs", {"cntk.learners": {"signs": "cntk_learner_signs:Signs"}}, LEARNER, version="2.1")
    install("cntk-op-soft", {"cntk.ops": {"softness": "cntk_op_soft"}}, OPS)
    install("cntk-hook-watch", {"cntk.hooks": {"watch": "cntk_hook_watch"}}, HOOKS)
    install("cntk-engine-far", {"cntk.engines": {"far": "cntk_engine_far:Away"}})
    install("cntk-reader-bad", {"cntk.readers": {"bad": "cntk_reader_bad:Reader"}}, "import missing_library\n")
    with (site / "cntk_learner_signs-2.1.dist-info/METADATA").open("a", encoding="utf-8") as file:
        file.write("Requires-Dist: cntk-core>=0.1\nRequires-Dist: numpy\n")


def shown(capsys, *words: str) -> str:
    assert main(["plugins", "show", *words]) == 0
    return capsys.readouterr().out


def test_a_learner(wheels, site, capsys):
    assert shown(capsys, "signs") == (
        "learner signs\n"
        "  wheel     cntk-learner-signs 2.1\n"
        "  state     usable\n"
        "  target    cntk_learner_signs:Signs\n"
        f"  file      {site}/cntk_learner_signs.py\n"
        "  requires  cntk-core>=0.1, plugin interface 1.0\n"
        "\n"
        "  Steps by signs.\n"
        "\n"
        "  Twice as slow as it looks.\n"
        "\n"
        "  options:\n"
        "    beta1 (number; default 0.9)\n"
        "        share of the old average\n"
        "    decay (number; has to be given; also weightDecay)\n"
        "        of weights\n"
    )


def test_several_ops_of_a_wheel_and_one_of_them(wheels, site, capsys):
    assert shown(capsys, "cntk-op-soft") == (
        "ops softness\n"
        "  wheel     cntk-op-soft 0.1.0\n"
        "  state     usable: Soft, Mild\n"
        "  target    cntk_op_soft\n"
        f"  file      {site}/cntk_op_soft.py\n"
        "  requires  plugin interface 1.0\n"
        "  ops       Soft, Mild\n"
        "\n"
        "  Soft things.\n"
    )
    assert shown(capsys, "op:soft") == (
        "op Soft\n"
        "  wheel     cntk-op-soft 0.1.0\n"
        "  state     usable\n"
        f"  file      {site}/cntk_op_soft.py\n"
        "  also      Softer\n"
        "\n"
        "  Softens.\n"
        "\n"
        "  attributes:\n"
        "    scale (number; default 1)\n"
    )


def test_an_op_of_the_core(wheels, capsys):
    assert shown(capsys, "sigmoid").startswith("op Sigmoid\n  wheel     cntk-core 0.1.0\n  state     usable\n")


def test_keys_that_all_readers_have(install, capsys):
    install("cntk-reader-wav", {"cntk.readers": {"wav": "cntk_reader_wav:Reader"}})
    assert shown(capsys, "wav").endswith(
        "  further keys, as of every reader: randomize, precision, traceLevel, verbosity\n"
    )


def test_hooks(wheels, site, capsys):
    assert shown(capsys, "hook:watch") == (
        "hooks watch\n"
        "  wheel     cntk-hook-watch 0.1.0\n"
        "  state     usable\n"
        "  target    cntk_hook_watch\n"
        f"  file      {site}/cntk_hook_watch.py\n"
        "  hooks     cntk_job_begin\n"
        "\n"
        "  Watches.\n"
    )


def test_what_is_not_usable(wheels, capsys):
    out = shown(capsys, "far")
    assert "  state     unavailable: no device\n" in out
    assert '    Use engine = "cpu".\n' in out
    bad = shown(capsys, "reader:bad")
    assert bad.startswith(
        "reader bad\n"
        "  wheel     cntk-reader-bad 0.1.0\n"
        "  state     broken: reader 'bad' from cntk-reader-bad 0.1.0 could not be imported: "
        "No module named 'missing_library'\n"
        "  target    cntk_reader_bad:Reader\n"
        "    raised by "
    )


@pytest.mark.parametrize(
    ("name", "kind", "wheel"),
    [
        ("train", "action", "cntk-kit-recipes"),
        ("train", "verb", "cntk-kit-recipes"),
        ("model_format:cntk-core", "model format", "cntk-core"),
        ("verb:doctor", "verb", "cntk-kit-recipes"),
        ("heNormal", "initializer", "cntk-kit-builders"),
    ],
)
def test_the_core_and_its_kits_have_plugins_too(wheels, name, kind, wheel):
    (found,) = [one for one in describe_plugins(name) if one.kind == kind]
    assert (found.wheel, found.state) == (wheel, "usable")
    assert found.doc


def test_a_file(tmp_path, monkeypatch, site):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LEARNER + OPS, encoding="utf-8")
    (reading,) = describe_plugins("reading", ["mine.py"])
    assert (reading.wheel, reading.version, reading.file) == ("mine.py", "", str(tmp_path / "mine.py"))
    # It reads its block itself, and yet what it declares is an option.
    assert [one.key for one in reading.options] == ["beta1", "decay"]
    (mild,) = describe_plugins("mild", ["mine.py"])
    assert (mild.kind, mild.wheel, mild.doc) == ("ops", "mine.py", "Is mild.")


def test_what_is_not_there(wheels):
    with pytest.raises(MissingPluginError) as caught:
        describe_plugins("sings")
    assert str(caught.value) == (
        "no plugin named 'sings' is installed; did you mean 'signs'?\n    cntk plugins lists what there is."
    )
    with pytest.raises(MissingPluginError) as caught:
        describe_plugins("MNISTReader")
    assert str(caught.value) == (
        "no reader named 'MNISTReader'. It lives in cntk-reader-mnist:\n    pip install cntk-reader-mnist\n"
        "    installed readers: bad (cntk-reader-bad 0.1.0)"
    )


def test_a_model(wheels, tmp_path, capsys):
    network = Network()
    network.origins = (Origin("learner", "signs", "cntk-learner-signs", "2.1"), Origin("op", "Soft", "mine.py"))
    save_model(network, tmp_path / "net.dnn")
    assert shown(capsys, str(tmp_path / "net.dnn")) == ("learner signs of cntk-learner-signs 2.1\nop Soft of mine.py\n")
    assert json.loads(shown(capsys, str(tmp_path / "net.dnn"), "--json"))[1] == {
        "kind": "op",
        "name": "Soft",
        "wheel": "mine.py",
        "version": "",
    }
    save_model(Network(), tmp_path / "net.dnn")
    assert shown(capsys, str(tmp_path / "net.dnn")) == "no plugins are named\n"


def test_for_programs(wheels, capsys):
    (found,) = json.loads(shown(capsys, "signs", "--json"))
    assert (found["kind"], found["version"], found["requires"]) == ("learner", "2.1", ["cntk-core>=0.1"])
    assert found["options"][1] == {
        "key": "decay",
        "type": "number",
        "default": None,
        "doc": "of weights",
        "aliases": ["weightDecay"],
    }


def test_the_table_of_a_kind(wheels, capsys):
    assert main(["plugins", "list", "--kind", "learner", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in rows} == {"learner"}
    assert [row["state"] for row in rows if row["name"] == "signs"] == ["usable"]
    assert main(["plugins", "list", "--kind", "op", "--names"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "ops   softness  cntk-op-soft  0.1.0    installed"
    assert main(["plugins", "list", "--kind", "model-format", "--all"]) == 0
    assert "cntk-core" in capsys.readouterr().out


def test_no_such_kind(wheels, capsys):
    assert main(["plugins", "list", "--kind", "raeder"]) != 0
    assert capsys.readouterr().err.startswith(
        "error: there is no kind of plugin 'raeder'; did you mean 'reader'?\n    Kinds: engine, builder, reader, "
    )


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@options
class Inner:
    size: int = 3


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (bool, "true or false"),
        (int | None, "integer"),
        (Path, "path"),
        (Config, "block"),
        (Color, "one of red, blue"),
        (tuple[float, ...], "list of number"),
        (tuple[int, str], "integer:text"),
        (Schedule[float], "number, by epoch"),
        (Inner, "block of size"),
        (complex, "complex"),
    ],
)
def test_types_in_words(kind, words):
    assert type_in_words(kind) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (False, "false"),
        (Color.BLUE, "blue"),
        ((1, 2), "1:2"),
        ((), '""'),
        ("", '""'),
        (1e-8, "1e-08"),
        (Schedule.constant(256), "256"),
    ],
)
def test_values_as_written(value, text):
    assert value_as_written(value) == text


def test_defaults_that_are_made():
    @attrs.frozen
    class Made:
        some: tuple[int, ...] = attrs.field(factory=lambda: (1, 2))
        more: int = attrs.field(default=attrs.Factory(lambda self: self.some[0], takes_self=True))
        hidden: int = attrs.field(default=3, init=False)

    assert [(one.key, one.default) for one in _fields_of(Made, declared_only=False)] == [
        ("some", "1:2"),
        ("more", "from the others"),
    ]
    assert list(_fields_of(Made, declared_only=True)) == []


def test_an_option_without_a_name_for_its_type():
    @options
    class Odd:
        what: Nowhere = option(default=1)  # noqa: F821

    (found,) = _fields_of(Odd, declared_only=True)
    assert (found.key, found.type) == ("what", "Nowhere")
