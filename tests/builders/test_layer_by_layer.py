"""The page of SimpleNetworkBuilder on training layer by layer: its recipe and its script are run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.network.model_file import load_model
from cntk_core.ops.table import core_ops
from cntk_kit_recipes.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "simple-network-builder.md"


def test_a_layer_is_added_and_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chapter = PAGE.read_text(encoding="utf-8").split("## Training layer by layer")[1].split("\n## ")[0]
    recipe, script = re.findall(r"^```(?:cntk|mel)\n(.*?)^```$", chapter, re.DOTALL | re.MULTILINE)
    Path("r.cntk").write_text(recipe, encoding="utf-8")
    Path("add.mel").write_text(script, encoding="utf-8")
    random = np.random.default_rng(5)
    Path("train.ctf").write_text(
        "".join(
            f"|features {' '.join(f'{value:.3f}' for value in random.standard_normal(64))} |labels {number % 10}:1\n"
            for number in range(20)
        ),
        encoding="utf-8",
    )
    assert main(["configFile=r.cntk"]) == 0
    one, added, two = (load_model(name, core_ops().find) for name in ("one.dnn", "two.dnn.0", "two.dnn"))
    assert np.array_equal(one["W0"].value, added["W0"].value)
    assert added["V"].shape == (256, 256)
    assert [node.name for node in added["W1*H0"].inputs] == ["W1", "H2"]
    for name in ("W0", "V", "C", "W1"):
        assert not np.array_equal(added[name].value, two[name].value)
