"""Verbs of plugins: from a wheel, from a file, from hooks; the list is made without importing them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.cli.plugin_words import split_plugins, without_plugins
from cntk_kit_recipes.cli.summaries import summary
from cntk_kit_recipes.cli.words import installed

VERB = '''
from cntk_core.api import *


class Hello(Verb):
    """Greet 100 % of the world.

    More about it.
    """

    requires_api = "1.0"

    def add_arguments(self, parser):
        parser.add_argument("whom")
        parser.add_argument("overrides", nargs="*", default=[])

    def run(self, options):
        print("Hello", options.whom, options.overrides, options.verb, options.plugin)
        return 3
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def wheel(tmp_path, monkeypatch, text=VERB, name="my-hello", verbs="hello = my_hello:Hello"):
    """Put a wheel on the path; its module does not stay imported."""
    site = tmp_path / "site"
    info = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[cntk.verbs]\n{verbs}\n", encoding="utf-8")
    (site / f"{name.replace('-', '_')}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, name.replace("-", "_"), raising=False)


def test_from_a_wheel(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch)
    assert main(["hello", "World", "a=1", "--plugin", "x.py"]) == 1
    assert capsys.readouterr().err == "error: there is no plugin file 'x.py'\n"
    assert main(["hello", "World", "a=1", "b=2"]) == 3
    assert capsys.readouterr().out == "Hello World ['a=1', 'b=2'] hello []\n"
    sys.modules.pop("my_hello")


def test_the_list_names_it_and_imports_nothing(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch, f"raise RuntimeError('imported')\n{VERB}")
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "hello greet 100 % of the world" in lines
    assert "train run the train actions of a recipe" in lines


def test_the_list_imports_no_engine_room():
    code = (
        "import sys\nfrom cntk_kit_recipes.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('heavy', [name for name in ('numpy', 'scipy', 'cntk_core.plugins.registry') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy []"


def test_all_of_the_core_have_a_line_and_can_be_loaded():
    for word, offers in installed().items():
        for offer in offers:
            if offer.source.name == "cntk-core":
                assert summary(offer.target).endswith("."), word
                assert offer.get()


def test_from_a_file(capsys):
    Path("p.py").write_text(VERB.replace("class Hello(Verb):", "class hello(Verb):"), encoding="utf-8")
    assert main(["hello", "World", "--plugin", "p.py", "k=v"]) == 3
    assert capsys.readouterr().out == "Hello World ['k=v'] hello ['p.py']\n"


def test_from_hooks(tmp_path, monkeypatch, capsys):
    text = VERB + "\n@hookimpl\ndef cntk_register(registry):\n    registry.verbs.add('hail', Hello)\n"
    Path("p.py").write_text(text, encoding="utf-8")
    assert main(["hail", "World", "--plugin=p.py"]) == 3
    assert capsys.readouterr().out == "Hello World [] hail ['p.py']\n"


def test_a_broken_one_is_an_error_only_for_who_uses_it(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch, "import missing_library\n")
    assert main(["hello", "World"]) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: verb 'hello' from my-hello 0.1.0 could not be imported: ")
    assert main(["plugins", "list", "--names"]) == 0


def test_unknown_words(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as caught:
        main(["helo"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "cntk: error: there is no verb 'helo'; did you mean 'hello'?; see cntk --help"
    )


def test_what_its_help_says(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch)
    with pytest.raises(SystemExit):
        main(["hello", "--help"])
    out = capsys.readouterr().out
    usage, _, text = out.partition("\n\n")
    assert (
        " ".join(usage.split())
        == "usage: cntk hello [-h] [--plugin FILE] [--no-plugin NAME] [--safe] whom [overrides ...]"
    )
    assert text.startswith("Greet 100 % of the world.\n")
    sys.modules.pop("my_hello")


def test_one_that_is_switched_off(tmp_path, monkeypatch, capsys):
    wheel(tmp_path, monkeypatch)
    monkeypatch.setenv("CNTK_PLUGINS", "-verb:hello")
    with pytest.raises(SystemExit):
        main(["hello", "world"])
    assert "there is no verb 'hello'" in capsys.readouterr().err
    assert "hello" not in installed()


def test_plugin_files_stand_anywhere():
    assert split_plugins(["train", "--plugin", "a.py", "r.cntk", "--plugin=b.py"]) == (
        ["train", "r.cntk"],
        ["a.py", "b.py"],
    )
    assert without_plugins(["train", "r.cntk", "--plugin"]) == ["train", "r.cntk"]
    assert split_plugins(["x", "--", "--plugin", "a.py"]) == (["x", "--", "--plugin", "a.py"], [])


def test_summaries_follow_a_class_to_its_module(tmp_path, monkeypatch):
    package = tmp_path / "far_away"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Word as Verb\nraise RuntimeError\n", encoding="utf-8")
    (package / "inner.py").write_text('class Word:\n    """One line.\n\n    More.\n    """\n', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert summary("far_away:Verb") == "One line."
    assert summary("far_away.inner:Word") == "One line."
    assert summary("far_away:Nothing") == ""
    assert summary("nowhere_at_all:Verb") == ""
    assert "far_away" not in sys.modules
