"""Whole recipes that are stopped inside an epoch and go on: with every way of reading the model has the same bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.session.saving import Saver

RECIPE = """
command = Train
precision = float
modelPath = "{model}"
{top}
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [
            features = Input(2)
            labels = Input(3)
            W = Parameter(4, 2)
            R = Parameter(4, 4)
            V = Parameter(3, 4)
            d = PastValue(4, h, timeStep=1)
            h = Tanh(Plus(Times(W, features), Times(R, d)))
            z = Times(V, Dropout(h))
            ce = CrossEntropyWithSoftmax(labels, z)
            errs = ClassificationError(labels, z)
            FeatureNodes = (features)
            LabelNodes = (labels)
            CriterionNodes = (ce)
            EvalNodes = (errs)
        ]
    ]
    SGD = [
        maxEpochs = 2
        minibatchSize = 12
        learningRatesPerSample = 0.05
        momentumPerMB = 0.5
        dropoutRate = 0.2
        checkpointEverySamples = {every}
        {sgd}
    ]
    reader = [ {reader} ]
]
"""
_STREAMS = "features=[ dim=2 ; format=dense ] ; labels=[ dim=3 ; format=sparse ]"
_TEXT = f'readerType=CNTKTextFormatReader ; file="s.ctf" ; input=[ {_STREAMS} ]'
_PART = "[ type=CNTKTextFormatDeserializer ; file={0} ; input=[ {1} ] ]"
_ONE = "deserializers=(" + _PART.format('"s.ctf"', _STREAMS) + ")"
_TWO = (
    "deserializers=("
    + _PART.format('"s.ctf"', "features=[ dim=2 ; format=dense ]")
    + ":"
    + _PART.format('"s.ctf"', "labels=[ dim=3 ; format=sparse ]")
    + ")"
)
_HTK = (
    "readerType=HTKMLFReader ; features=[ dim=2 ; scpFile=s.scp ] ; "
    "labels=[ labelDim=3 ; mlfFile=s.mlf ; labelMappingFile=s.list ]"
)
READERS = {
    "in order": (f"{_TEXT} ; randomize=false", "", ""),
    "random": (f"{_TEXT} ; randomize=true", "", ""),
    "in a window": (f"{_TEXT} ; randomize=true ; randomizationWindow=20 ; sampleBasedRandomizationWindow=true", "", ""),
    "frames": (f"{_TEXT} ; randomize=true ; frameMode=true", "", "epochSize=50"),
    "composite": (f"{_TWO} ; randomize=true", "", "epochSize=60"),
    "truncated": (f"{_ONE} ; randomize=true ; truncationLength=3", "truncated=true", ""),
    "truncated epochs": (f"{_ONE} ; randomize=true ; truncationLength=4", "truncated=true", "epochSize=55"),
    "htk": (f"{_HTK} ; frameMode=true ; randomize=auto", "", ""),
    "htk utterances": (f"{_HTK} ; frameMode=false ; randomize=auto", "", ""),
    "htk truncated": (f"{_HTK} ; frameMode=false ; randomize=auto ; truncationLength=4", "truncated=true", ""),
}
"""By name: the reader's block, keys at the top, keys of the SGD block."""


class Stop(BaseException):
    """Ends a run as somebody at the keyboard would."""


def write_data() -> None:
    """Fifteen sequences of 1 to 18 frames, as text and as HTK files with labels."""
    numbers = np.random.default_rng(2)
    text, archive, scp, mlf, row = [], [], [], ["#!MLF!#"], 0
    for sequence in range(15):
        length = 1 + sequence * 7 % 18
        frames = numbers.normal(size=(length, 2)).astype(np.float32)
        classes = (frames[:, 0] > 0).astype(int) + (np.cumsum(frames[:, 1]) > 0)
        for frame, label in zip(frames, classes, strict=True):
            text.append(f"{sequence} |features {frame[0]:.4f} {frame[1]:.4f} |labels {label}:1\n")
        archive.append(frames)
        scp.append(f"u{sequence}.mfc=s.chunk[{row},{row + length - 1}]\n")
        row += length
        mlf.append(f'"*/u{sequence}.lab"')
        mlf += [f"{t * 100000} {(t + 1) * 100000} s[{label}]" for t, label in enumerate(classes)]
        mlf.append(".")
    everything = np.concatenate(archive)
    header = struct.pack(">iihh", len(everything), 100_000, 8, 9)
    Path("s.ctf").write_text("".join(text))
    Path("s.chunk").write_bytes(header + everything.astype(">f4").tobytes())
    Path("s.scp").write_text("".join(scp))
    Path("s.mlf").write_text("\n".join(mlf) + "\n")
    Path("s.list").write_text("s[0]\ns[1]\ns[2]\n")


def configure(name: str, model: str, every: int) -> list[str]:
    reader, top, sgd = READERS[name]
    Path("r.cntk").write_text(RECIPE.format(model=model, reader=reader, top=top, sgd=sgd, every=every))
    return ["configFile=r.cntk"]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.sampled(4, later=4)
def test_the_model_has_the_same_bytes(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    write_data()
    assert main(configure(name, "straight/net", every=0)) == 0
    for saves in (2, 7):
        model = f"stopped{saves}/net"
        with monkeypatch.context() as patch:
            real, count = Saver.save_inside, []

            def stop_after(saver, progress, position, of_ranks, real=real, count=count, saves=saves):
                real(saver, progress, position, of_ranks)
                count.append(position)
                if len(count) == saves:
                    raise Stop

            patch.setattr(Saver, "save_inside", stop_after)
            with pytest.raises(Stop):
                main(configure(name, model, every=10))
        if "truncated" in name:
            assert any(position.program.carried for position in count), "a state goes on"
        capsys.readouterr()
        assert main(configure(name, model, every=0)) == 0
        assert "minibatches of the next epoch" in capsys.readouterr().err
        assert Path(model).read_bytes() == Path("straight/net").read_bytes()
