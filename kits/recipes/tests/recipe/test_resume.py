"""The words of ``resume`` in a section that trains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cntk_core.config import Config, SourceText
from cntk_core.errors import CntkError
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.resume import Resumption, resumption


def read(text: str) -> Resumption:
    return resumption(Config.from_source(SourceText.of(text, "r.cntk")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Resumption()),
        ("makeMode=false", Resumption(make_mode=False)),
        ("resume=false", Resumption()),
        ("resume=true", Resumption(beyond=True)),
        ("resume=auto", Resumption(beyond=True)),
        ("resume=Must", Resumption(beyond=True, must=True)),
        ("resume=never", Resumption(make_mode=False)),
        ("resume=auto\nmakeMode=false", Resumption(make_mode=False)),
    ],
)
def test_words(text, expected):
    assert read(text) == expected


def test_another_word():
    with pytest.raises(CntkError) as caught:
        read("resume=perhaps")
    assert str(caught.value) == "r.cntk:1:8: resume is 'perhaps'\n    It is auto, never or must; true is auto."


def test_a_contradiction():
    with pytest.raises(CntkError) as caught:
        read("makeMode=false\nresume=must")
    assert str(caught.value) == (
        "r.cntk:2:8: resume=must goes on with an earlier training, but makeMode=false begins anew\n"
        "    Give one of them: makeMode=false is resume=never."
    )


def test_must_needs_a_checkpoint(recipe: Path, capsys):
    assert main([f"configFile={recipe}", "command=Train", "Train=[resume=must]"]) != 0
    told = capsys.readouterr().err
    assert "resume=must, but there is no usable checkpoint of 'run/net.dnn'" in told
    assert "Traceback" not in told
    assert main([f"configFile={recipe}", "command=Train"]) == 0
    capsys.readouterr()
    assert main([f"configFile={recipe}", "command=Train", "Train=[resume=must;SGD=[maxEpochs=3]]"]) == 0
    assert "Restored from 'run/net.dnn.ckp': 2 epochs" in capsys.readouterr().err


def test_never_begins_anew(recipe: Path, capsys):
    assert main([f"configFile={recipe}", "command=Train"]) == 0
    before = Path("run/net.dnn").read_bytes()
    shutil.copy("run/net.dnn.0", "run/net.dnn")  # whatever is there does not count
    assert main([f"configFile={recipe}", "command=Train", "Train=[resume=never]"]) == 0
    assert Path("run/net.dnn").read_bytes() == before
