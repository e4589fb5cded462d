"""The core alone, without any wheel: everything that is missing is said at once."""

from __future__ import annotations

import pytest

from cntk_core.errors import MissingPluginError, Problems
from cntk_kit_recipes.cli import main

MISSING = (
    "r.cntk:6:5: no builder named 'NDLNetworkBuilder'. It lives in cntk-builder-ndl:\n",
    ": no reader named 'CNTKTextFormatReader'. It lives in cntk-reader-cntk-text:\n",
    "no learner named 'sgd'. It lives in cntk-learner-sgd:\n    pip install cntk-learner-sgd\n",
    "no engine that could be taken is installed: install one of ours\n    pip install cntk-engine-cpu\n",
)
END = (
    "All that is missing: pip install cntk-builder-ndl cntk-reader-cntk-text cntk-learner-sgd cntk-engine-cpu\n"
    "4 problems found\n"
)


@pytest.mark.parametrize("arguments", [["configFile=r.cntk"], ["train", "r.cntk"], ["config", "check", "r.cntk"]])
def test_all_wheels_are_named_with_one_line_that_installs_them(recipe, monkeypatch, capsys, arguments):
    monkeypatch.setenv("CNTK_PLUGINS", "cntk-tool-inspect")  # it has the verb config, and nothing of a training
    assert main(arguments) == 1
    error = capsys.readouterr().err
    for text in MISSING:
        assert text in error
    assert error.endswith(END)


def test_an_engine_alone_that_is_missing(recipe, monkeypatch, capsys):
    monkeypatch.setenv("CNTK_PLUGINS", "cntk-tool-inspect cntk-builder-ndl cntk-reader-cntk-text cntk-learner-sgd")
    assert main(["config", "check", "r.cntk"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        "error: no engine that could be taken is installed: install one of ours\n    pip install cntk-engine-cpu\n"
    )
    assert "All that is missing" not in error


def test_an_extra_is_quoted_and_nothing_stands_there_twice():
    errors = [
        MissingPluginError("a", requirement='"cntk-engine-cuda[cuda13]"'),
        MissingPluginError("b", requirement="cntk-learner-sgd"),
        MissingPluginError("c", requirement="cntk-learner-sgd"),
        MissingPluginError("d"),
    ]
    assert str(Problems(errors)).splitlines()[4:] == [
        'All that is missing: pip install "cntk-engine-cuda[cuda13]" cntk-learner-sgd',
        "4 problems found",
    ]
    assert "All that is missing" not in str(Problems(errors[1:]))
