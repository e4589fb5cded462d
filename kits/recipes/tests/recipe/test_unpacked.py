"""Networks with UnpackSequence in recipes: trained, written as text, refused where a writer needs one size."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command=Train:Write
modelPath="net"
cpuKernels=numpy
Train=[
 action=train
 NDLNetworkBuilder=[
  run=net
  net=[
   x=Input(2)
   y=Input(2)
   W=Parameter(2,2,init=fixedValue,value=0.5)
   matrix=UnpackSequence(Times(W,x),paddingValue=-1)
   wide=ElementTimes(matrix,matrix)
   back=ToSequenceLike(wide,x)
   error=SquareError(y,back)
   FeatureNodes=(x)
   LabelNodes=(y)
   CriterionNodes=(error)
   OutputNodes=(wide)
  ]
 ]
 SGD=[ epochSize=0 ; minibatchSize=10 ; maxEpochs=3 ; learningRatesPerSample=0.00002 ]
 reader=[ readerType=CNTKTextFormatReader ; file=d.ctf ; randomize=false
  input=[ x=[ dim=2 ; format=dense ] ; y=[ dim=2 ; format=dense ] ] ]
]
Write=[
 action=write
 outputPath="out"
 minibatchSize=1
 reader=[ readerType=CNTKTextFormatReader ; file=d.ctf ; randomize=false ; input=[ x=[ dim=2 ; format=dense ] ] ]
 format=[ sequencePrologue="%x:" ; elementSeparator="," ; precisionFormat=".2" ]
]
"""
DATA = """\
0 |x 1 2 |y 1 1
0 |x 3 4 |y 2 2
0 |x 5 6 |y 3 3
1 |x 7 8 |y 4 4
"""


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    Path("d.ctf").write_text(DATA, encoding="utf-8")


def test_training_and_writing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk"]) == 0
    log = "".join(capsys.readouterr())
    errors = [float(line.split("error = ")[1].split()[0]) for line in log.splitlines() if "Finished Epoch" in line]
    assert len(errors) == 3
    assert errors[2] < errors[1] < errors[0]
    # Each minibatch has one sequence, so nothing is filled up: 3 and 1 frames of 2 numbers.
    first, second = Path("out.wide").read_text(encoding="utf-8").splitlines()
    assert first.startswith("2 3 1:")
    assert len(first.split(",")) == 6
    assert second.startswith("2 1 1:")
    assert len(second.split(",")) == 2


def test_shorter_ones_are_filled_up() -> None:
    assert main(["configFile=r.cntk", "Write=[minibatchSize=10]", "Train=[SGD=[learningRatesPerSample=0]]"]) == 0
    lines = Path("out.wide").read_text(encoding="utf-8").splitlines()
    assert lines == ["2 3 1:2.25,2.25,12.25,12.25,30.25,30.25", "2 3 1:56.25,56.25,1.00,1.00,1.00,1.00"]


def test_other_layouts_of_text() -> None:
    text = 'Write=[format=[ transpose=false ; sampleSeparator="/" ]]'
    assert main(["configFile=r.cntk", "Train=[SGD=[learningRatesPerSample=0]]", "Write=[minibatchSize=10]", text]) == 0
    _, second = Path("out.wide").read_text(encoding="utf-8").splitlines()
    assert second == "2 3 1:[0,0]\t56.25/[1,0]\t56.25/[0,1]\t1.00/[1,1]\t1.00/[0,2]\t1.00/[1,2]\t1.00"


def test_a_writer_needs_one_size(capsys: pytest.CaptureFixture[str]) -> None:
    writer = "Write=[writer=[ writerType=HTKMLFWriter ; outputNodeNames=wide ; wide=[ dim=2 ; scpFile=o.scp ] ]]"
    assert main(["configFile=r.cntk", writer]) == 1
    assert capsys.readouterr().err.endswith(
        "the values of 'wide' [2 x ?] have another size in each minibatch and cannot be written\n"
        "    outputPath=... without a writer writes values with one such dimension as text.\n"
    )
