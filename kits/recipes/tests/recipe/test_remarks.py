"""What is legal in a network but hardly meant is said once for each command."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

NORMALIZED = """\
            gain = Parameter(1, 2, init=fixedValue, value=1)
            bias = Parameter(1, 2, init=fixedValue, value=0)
            average = Parameter(1, 2, init=fixedValue, value=0, learningRateMultiplier=0)
            variance = Parameter(1, 2, init=fixedValue, value=0, learningRateMultiplier=0)
            n1 = BatchNormalization(features, gain, bias, average, variance)
            n2 = BatchNormalization(n1, gain, bias, average, variance)
            z = Times(W, n2)
"""


def test_warnings_of_a_run(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe.read_text(encoding="utf-8").replace("            z = Times(W, features)\n", NORMALIZED)
    recipe.write_text(text, encoding="utf-8")
    assert main(["configFile=r.cntk", "command=Train:Test"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "Warning:" in line]
    remark = (
        "Warning: BatchNormalization 'n1' and 1 more: of the 2 numbers of a scale [1 x 2] only the first 1 is used, as "
        "CNTK does; give scale, bias, mean and variance the shape [2], or useCntkEngine=false"
    )
    assert warnings == [f"r.cntk:16:18: {remark}", remark]
