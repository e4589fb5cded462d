"""Which lines of a file are one sequence, as a recurrent network sees it: the ids are told apart to the last bit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """
command = Train ; modelPath = "m/net" ; precision = "double"
Train = [
    action = "train"
    BrainScriptNetworkBuilder = [
        x = Input {1}
        w = Parameter {1, 1, init = 'zero'}
        begins = BS.Loop.IsFirst (x)
        loss = begins + w * x
        featureNodes = (x) ; criterionNodes = (loss)
    ]
    SGD = [ minibatchSize = 4 ; maxEpochs = 1 ; learningRatesPerSample = 1e-8 ]
    reader = [ readerType = CNTKTextFormatReader ; file = "d.ctf" ; input = [ x = [ dim = 1 ; format = "dense" ] ] ]
]
"""


@pytest.mark.parametrize(
    ("ids", "share"),
    [
        ([1, 3, 4, 2], 1.0),
        ([1, 9223372036854775809, 9999999999999999998, 2], 1.0),
        ([2**64 - 1, 2**64 - 2, 0, 2**63], 1.0),
        ([2**64 - 1, 2**64 - 1, 2**63, 2**63], 0.5),
    ],
)
def test_each_id_is_a_sequence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ids: list[int],
    share: float,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE)
    Path("d.ctf").write_text("".join(f"{key} |x 1\n" for key in ids))
    assert main(["configFile=r.cntk", "Train=[cpuKernels=numpy]"]) == 0
    (found,) = re.findall(r"Finished Epoch\[ 1 of 1\].*?loss = ([\d.]+) ", "".join(capsys.readouterr()))
    assert float(found) == pytest.approx(share, abs=1e-5)


def test_a_larger_id_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE)
    Path("d.ctf").write_text("1 |x 1\n18446744073709551616 |x 1\n")
    assert main(["check-data", "r.cntk"]) == 1
    assert (
        "d.ctf:2:1: the sequence id is above 18446744073709551615 (2^64 - 1), or has too many digits\n"
        "    Number the sequences anew; skipSequenceIds=true takes each line for a sequence."
    ) in "".join(capsys.readouterr())
