"""A recipe of two trainings: cross entropy on transition-ids, then sMBR over lattices that come through a pipe."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from kaldi_bytes import alignment, archive, matrix
from kaldi_lattices import SILENCE_AND_WORDS, Edge, Fst, binary, binary_model, text

from cntk_core.api import Model
from cntk_kit_recipes.cli import main

LENGTHS = {f"utt{number}": 12 + number for number in range(8)}

RECIPE = """
command = Frames:Sequence
allowCommands = true
features = [ dim = 3 ; scpFile = feats.scp ]
labels = [ labelDim = 4 ; mlfFile = "ark:gunzip -c ali.*.gz |" ; kaldiModel = final.mdl ]
Frames = [
    action = train ; modelPath = "m/frames.dnn"
    BrainScriptNetworkBuilder = {
        features = Input {3} ; labels = Input {4}
        z = ParameterTensor {4:3} * features + ParameterTensor {4}
        scaled = z - Log (Mean (labels))
        ce = CrossEntropyWithSoftmax (labels, z, tag = 'criterion')
        outputNodes = (scaled)
    }
    SGD = [ maxEpochs = 1 ; minibatchSize = 40 ; learningRatesPerSample = 0.01 ]
    reader = [ readerType = Kaldi2Reader ; features = $features$ ; labels = $labels$ ]
]
Sequence = [
    action = train ; modelPath = "m/sequence.dnn"
    BrainScriptNetworkBuilder = {
        frames = BS.Network.Load ("m/frames.dnn")
        sequence = SequenceWithSoftmax (frames.labels, frames.z, frames.scaled, tag = 'criterion')
        outputNodes = (frames.scaled)
    }
    SGD = [
        maxEpochs = 4 ; minibatchSize = 200 ; learningRatesPerSample = 0.05
        hSmoothingWeight = 1 ; seqGammarUsesMBR = true ; seqGammarAMF = 5 ; seqGammarLMF = 5
    ]
    reader = [
        readerType = Kaldi2Reader ; frameMode = false ; seqTrainCriterion = smbr
        features = $features$ ; labels = $labels$
        denlats = [ rx = "ark:gunzip -c lat.*.gz |" ; kaldiModel = final.mdl ; silPhoneList = 1 ; acousticScale = 0.2 ]
        alignments = [ rx = "ark:gunzip -c ali.*.gz |" ]
    ]
]
"""


@pytest.fixture
def recogniser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Utterances of silence and one of two words; the lattices have both words."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    pdfs = [pdf for _, pdf in SILENCE_AND_WORDS.transitions()]
    means = rng.normal(size=(4, 3))
    features, ids, lattices = {}, {}, {}
    for number, (key, frames) in enumerate(LENGTHS.items()):
        ways = [(1, 2, 4, 4, *(first for _ in range(frames - 5)), first + 1) for first in (6, 8)]
        ids[key] = list(ways[number % 2])
        features[key] = means[[pdfs[one] for one in ids[key]]] + rng.normal(size=(frames, 3))
        edges = [Edge(0, 1, 1, 0.5, 9.0, ways[0][:4])]
        edges += [Edge(1, 2, word, 1.0, 9.0, way[4:]) for word, way in enumerate(ways, 2)]
        lattices[key] = Fst(3, edges, {2: (0.25, 0.0, ())})
    data, offsets = archive({key: matrix(frames) for key, frames in features.items()})
    Path("feats.ark").write_bytes(data)
    Path("feats.scp").write_text("".join(f"{key} feats.ark:{at}\n" for key, at in offsets.items()))
    Path("final.mdl").write_bytes(binary_model(SILENCE_AND_WORDS))
    forms = [lambda one: binary(one, compact=True), lambda one: text(one, compact=True)]
    for number, form in enumerate(forms):
        keys = list(LENGTHS)[4 * number : 4 * number + 4]
        for name, objects in (
            ("lat", {key: form(lattices[key]) for key in keys}),
            ("ali", {key: alignment(ids[key]) for key in keys}),
        ):
            Path(f"{name}.{number}.gz").write_bytes(gzip.compress(archive(objects)[0]))
    Path("r.cntk").write_text(RECIPE)
    return tmp_path


def test_fewer_frames_are_expected_to_be_wrong(recogniser: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk"]) == 0
    told = capsys.readouterr().err
    losses = [float(found) for found in re.findall(r"sequence = ([0-9.]+) \*", told)]
    assert len(losses) >= 4
    assert losses[-1] < 0.8 * losses[0]


OLD = """
command = TrainModel
action = train
precision = double
Truncated = false
TrainModel = [
    action = $action$ ; modelPath = "m/old.dnn"
    NDLNetworkBuilder = [
        networkDescription = model.ndl
    ]
    SGD = [
        epochSize = 0 ; minibatchSize = 20 ; learningRatesPerSample = 0.01 ; momentumPerMB = 0 ; maxEpochs = 2
        gradientClippingWithTruncation = true ; clippingThresholdPerSample = 1#INF
    ]
    reader = [
        readerType = Kaldi2Reader ; readMethod = none ; frameMode = false
        nbruttsineachrecurrentiter = 2 ; miniBatchMode = Partial ; randomize = none ; verbosity = 1
        seqTrainCriterion = smbr
        features = [ dim = 3 ; rx = "scp:feats.scp" ; featureTransform = NO_FEATURE_TRANSFORM ]
        labels = [ mlfFile = "ark:gunzip -c ali.*.gz |" ; kaldiModel = final.mdl ; labelDim = 4 ]
        derivatives = [ type = seqTrainDeriv ]
        objectives = [ type = seqTrainObj ]
        denlats = [
            rx = "ark:gunzip -c lat.*.gz |" ; silPhoneList = 1 ; kaldiModel = final.mdl
            oldAcousticScale = 0.0 ; acousticScale = 0.25 ; lmScale = 1 ; oneSilenceClass = true
        ]
        alignments = [ rx = "ark:gunzip -c ali.*.gz |" ]
    ]
]
"""
OLD_NETWORK = """
run = network
network = [
    features = Input(3, tag=feature)
    labels = Input(4, tag=label)
    objectives = Input(1, tag=feature)
    derivatives = Input(4, tag=feature)
    W = Parameter(4, 3, init=fixedValue, value=0.1)
    b = Parameter(4, 1, init=fixedValue, value=0)
    scores = Plus(Times(W, features), b)
    Cr = DummyCriterion(objectives, derivatives, scores, tag=Criteria)
    Err = ClassificationError(labels, scores, tag=Eval)
    ScaledLogLikelihood = Minus(scores, Log(Mean(labels)), tag=Output)
]
"""


def test_a_criterion_that_the_reader_computed(recogniser: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recipes with DummyCriterion run unchanged; CNTK's gradient was not divided by the scale of the lattices."""
    Path("r.cntk").write_text(OLD)
    Path("model.ndl").write_text(OLD_NETWORK)
    assert main(["configFile=r.cntk", "allowCommands=true"]) == 0
    told = capsys.readouterr().err
    losses = [float(found) for found in re.findall(r"Cr = ([0-9.]+) \*", told)]
    assert losses[-1] < losses[0]
    new = re.sub(".*(objectives|derivatives) = .*\\n", "", OLD_NETWORK)
    new = new.replace("(objectives, derivatives, scores,", "(labels, scores, ScaledLogLikelihood,")
    Path("model.ndl").write_text(new.replace("DummyCriterion", "SequenceWithSoftmax"))
    recipe = re.sub(".*(objectives|derivatives) = .*\\n", "", OLD).replace("old.dnn", "new.dnn")
    keys = "hSmoothingWeight = 1 ; frameDropThresh = 0 ; seqGammarUsesMBR = true ; seqGammarAMF = 4 ; seqGammarLMF = 4"
    Path("r.cntk").write_text(recipe.replace("PerSample = 0.01", f"PerSample = 0.04 ; {keys}"))
    assert main(["configFile=r.cntk", "allowCommands=true"]) == 0
    assert losses == [float(found) for found in re.findall(r"Cr = ([0-9.]+) \*", capsys.readouterr().err)]
    old, new_ = (Model.load(f"m/{name}.dnn").network for name in ("old", "new"))
    for name in ("W", "b"):
        assert np.allclose(old[name].value, new_[name].value, rtol=1e-12)
    assert "objectives" not in old


@pytest.mark.parametrize("role", ["labels", "output"])
def test_a_network_without_what_the_criterion_needs(
    recogniser: Path, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("r.cntk").write_text(OLD)
    tag = "label" if role == "labels" else "Output"
    Path("model.ndl").write_text(OLD_NETWORK.replace(f", tag={tag})", ")"))
    assert main(["configFile=r.cntk", "allowCommands=true"]) == 1
    assert f"'Cr' is computed over lattices, and the network has no {role}" in capsys.readouterr().err


def test_commands_once_for_all(recogniser: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kaldi-prepare", "r.cntk", "--section", "Sequence", "--yes"]) == 0
    told = capsys.readouterr().out
    assert "kaldi/Sequence-reader-denlats.ark: 8 utterances" in told
    assert "kaldi/Sequence-reader-labels.ark: 8 utterances" in told
    Path("r.cntk").write_text(
        RECIPE.replace("allowCommands = true\n", "")
        .replace("ark:gunzip -c lat.*.gz |", "ark:kaldi/Sequence-reader-denlats.ark")
        .replace("ark:gunzip -c ali.*.gz |", "ark:kaldi/Sequence-reader-labels.ark")
    )
    assert main(["check-data", "r.cntk"]) == 0
