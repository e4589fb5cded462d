"""The recipe of the documentation."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_recipe_of_the_page(read, build):
    page = (Path(__file__).parents[5] / "docs/brainscript.md").read_text(encoding="utf-8")
    found = re.search(r"```brainscript\n(dir    = .*?)```", page, re.DOTALL)
    assert found is not None
    config = read(found.group(1), "hidden = 256 ; epochs = 5")
    assert config.strings("command") == ("train", "actions[1]", "test")
    train, test = config.section("train"), config.section("test")
    assert build(train)["z"].known_shape == (10,)
    assert test.string("modelPath") == "models/net.256"
    assert test.section("reader").string("file") == "test.ctf"
    assert [train.section("SGD").schedule("learningRatesPerSample", float)[i] for i in (0, 4, 5)] == [0.1, 0.1, 0.01]
    assert config.section("actions[1]").string("what") == "trained models/net.256"
