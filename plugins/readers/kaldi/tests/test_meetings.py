"""Recipes as people trained on meetings with Kaldi and CNTK: labels by pipes, scores to a decoder.

The words are ours, the form is theirs: two configurations on one command line, files with specifiers, an LSTM with
projections in NDL that is trained on truncated sequences, and a network whose scaled likelihoods go to Kaldi's decoder.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kaldi_bytes import archive, matrix
from kaldi_programs import write_programs

from cntk_kit_recipes.cli import main

DIM, STATES = 6, 4
BASE = f"""
ExpDir=exp
modelName=cntk.lstmp
labelDim={STATES}
featDim={3 * DIM}
baseFeatDim={DIM}
RowSliceStart={2 * DIM}
labelMapping=exp/label.mapping
featureTransform=exp/splice.nnet
numThreads=1
inputCounts=exp/train.counts
inputFeats=exp/train.feats
inputLabels=exp/train.labels
cvInputCounts=exp/train.counts
cvInputFeats=exp/train.feats
cvInputLabels=exp/train.labels
"""
READER = """
        readerType=Kaldi2Reader
        readMethod=blockRandomize
        frameMode=false
        Truncated=true
        nbruttsineachrecurrentiter=2
        miniBatchMode=Partial
        randomize=Auto
        verbosity=0
        features=[
            dim=$featDim$
            scpFile=$%sCounts$
            rx=$%sFeats$
            featureTransform=$featureTransform$
        ]
        labels=[
            mlfFile=$%sLabels$
            labelDim=$labelDim$
            labelMappingFile=$labelMapping$
        ]
"""
TRAIN = f"""
NdlDir=$ExpDir$/configs
command=$command$
numCPUThreads=$numThreads$
precision=float
Truncated=true
TrainModel=[
    action=trainRNN
    modelPath=$ExpDir$/$modelName$
    deviceId=$DeviceNumber$
    traceLevel=1
    useValidation=true
    NDLNetworkBuilder=[
        ndlMacros=$NdlDir$/macros.ndl
        networkDescription=$NdlDir$/model.ndl
    ]
    SGD=[
        epochSize=0
        minibatchSize=5
        learningRatesPerMB=2
        momentumPerMB=0:0.5
        maxEpochs=8
        numMBsToShowResult=10
        AutoAdjust=[
            reduceLearnRateIfImproveLessThan=0
            loadBestModel=true
            increaseLearnRateIfImproveMoreThan=1000000000
            learnRateDecreaseFactor=0.5
            autoAdjustLR=AdjustAfterEpoch
            learnRateAdjustInterval=1
        ]
        gradientClippingWithTruncation=true
        clippingThresholdPerSample=1#INF
    ]
    reader=[{READER % (("input",) * 3)}    ]
    cvReader=[{READER % (("cvInput",) * 3)}    ]
]
"""
NETWORK = """
load=macros
run=network

macros=[
    Norm(x)=[
        m = Mean(x)
        s = InvStdDev(x)
        n = PerDimMeanVarNormalization(x, m, s)
    ]
    Prior(y)
    {
        p = Mean(y)
        Prior = Log(p)
    }
    Gate(rows, dim, width, x, h)
    {
        Wx = Parameter(rows, dim, init=uniform, initValueScale=8);
        Wh = Parameter(rows, width, init=uniform, initValueScale=8);
        b = Parameter(rows, init=fixedValue, value=0.0);
        z = Plus(Plus(Times(Wx, x), b), Times(Wh, h));
    }
    Projected(dim, width, cells, x)
    {
        dh = Delay(width, output, delayTime=1);
        dc = Delay(cells, ct, delayTime=1);
        Pi = Parameter(cells, init=uniform, initValueScale=8);
        Pf = Parameter(cells, init=uniform, initValueScale=8);
        Po = Parameter(cells, init=uniform, initValueScale=8);
        it = Sigmoid(Plus(Gate(cells, dim, width, x, dh), DiagTimes(Pi, dc)));
        ft = Sigmoid(Plus(Gate(cells, dim, width, x, dh), DiagTimes(Pf, dc)));
        ct = Plus(ElementTimes(ft, dc), ElementTimes(it, Tanh(Gate(cells, dim, width, x, dh))));
        ot = Sigmoid(Plus(Gate(cells, dim, width, x, dh), DiagTimes(Po, ct)));
        Wr = Parameter(width, cells, init=uniform, initValueScale=8);
        output = Times(Wr, ElementTimes(ot, Tanh(ct)));
    }
]

network=[
    features = Input($featDim$, tag=feature)
    labels = Input($labelDim$, tag=label)
    shifted = RowSlice($RowSliceStart$, $baseFeatDim$, features);   # frames that are to come
    normed = Norm(shifted)
    one = Projected($baseFeatDim$, 5, 8, normed);
    two = Projected(5, 5, 8, one);
    W = Parameter($labelDim$, 5, init=uniform, initValueScale=8);
    b = Parameter($labelDim$, init=fixedvalue, value=0);
    scores = Plus(Times(W, two), b);
    cr = CrossEntropyWithSoftmax(labels, scores, tag=Criteria);
    Err = ErrorPrediction(labels, scores, tag=Eval);
    logPrior = Prior(labels)
    ScaledLogLikelihood = Minus(scores, logPrior, tag=Output)
]
"""
WRITE = """
DeviceNumber=$DeviceNumber$
command=$action$
numCPUThreads=1
precision=float
write=[
    action=write
    modelPath=$modelName$
    outputNodeNames=ScaledLogLikelihood
    deviceId=$DeviceNumber$
    traceLevel=1
    useValidation=true
    printValues=true
    reader=[
        readerType=Kaldi2Reader
        readMethod=blockRandomize
        frameMode=false
        miniBatchMode=Partial
        randomize=Auto
        verbosity=0
        features=[
            dim=$featDim$
            scpFile=$inputCounts$
            rx=$inputFeats$
            featureTransform=$featureTransform$
        ]
    ]
    writer=[
        writerType=Kaldi2Reader
        readMethod=blockRandomize
        frameMode=false
        miniBatchMode=Partial
        randomize=Auto
        verbosity=0
        ScaledLogLikelihood=[
            dim=$labelDim$
            Kaldicmd="ark:-"
            scpFile=$inputCounts$
        ]
    ]
]
"""
LABELS = 'ark:ali-to-pdf ali/final.mdl "ark:gunzip -c ali/ali.*.gz |" ark:- | ali-to-post ark:- ark:- |\n'
LENGTHS = {f"AMI_{number:02d}": 8 + 3 * number for number in range(6)}


@pytest.fixture
def meetings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an experiment: features with a state each, alignments in two files, and Kaldi's programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    write_programs(tmp_path / "bin")
    random = np.random.default_rng(3)
    states = {key: np.arange(length) // 3 % STATES for key, length in LENGTHS.items()}
    means = 3 * random.normal(size=(STATES, DIM))
    frames = {key: means[own] + random.normal(size=(len(own), DIM)) for key, own in states.items()}
    data, offsets = archive({key: matrix(found) for key, found in frames.items()})
    Path("feats.ark").write_bytes(data)
    Path("feats.scp").write_text("".join(f"{key} feats.ark:{at}\n" for key, at in offsets.items()))
    Path("ali").mkdir()
    Path("ali/final.mdl").write_text("a model")
    lines = [
        f"{key} {' '.join(str(2 * one + 1 + t % 2) for t, one in enumerate(own))}\n" for key, own in states.items()
    ]
    Path("ali/ali.1.gz").write_bytes(gzip.compress("".join(lines[:3]).encode()))
    Path("ali/ali.2.gz").write_bytes(gzip.compress("".join(lines[3:]).encode()))
    Path("exp/configs").mkdir(parents=True)
    Path("exp/train.feats").write_text("scp:feats.scp\n")
    Path("exp/train.labels").write_text(LABELS)
    Path("exp/label.mapping").write_text("".join(f"{state}\n" for state in range(STATES)))
    Path("exp/splice.nnet").write_text(f"<Nnet>\n<Splice> {3 * DIM} {DIM}\n[ -1 0 1 ]\n</Nnet>\n")
    Path("exp/configs/macros.ndl").write_text(
        "# Macro definitions\nFF(X1, W1, B1)\n{\n  T=Times(W1,X1)\n  P=Plus(T, B1)\n}\n"
    )
    Path("exp/configs/model.ndl").write_text(NETWORK)
    Path("exp/Base.config").write_text(BASE)
    Path("exp/lstmp.config").write_text(TRAIN)
    Path("exp/write.config").write_text(WRITE)
    counts = subprocess.run(["feat-to-len", "scp:feats.scp", "ark,t:-"], check=True, capture_output=True).stdout
    Path("exp/train.counts").write_bytes(counts)
    return tmp_path


TRAINING = ["configFile=exp/Base.config", "configFile=exp/lstmp.config", "DeviceNumber=-1", "command=TrainModel"]
WRITING = [
    "configFile=exp/write.config", "DeviceNumber=-1", "modelName=exp/cntk.lstmp", f"labelDim={STATES}",
    f"featDim={3 * DIM}", "action=write", "inputCounts=exp/train.counts", "inputFeats=exp/train.feats",
    "featureTransform=exp/splice.nnet",
]  # fmt: skip


def test_training_says_what_to_do_with_commands(meetings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(TRAINING) == 1
    told = capsys.readouterr().err
    assert "the command 'ali-to-pdf ali/final.mdl \"ark:gunzip -c ali/ali.*.gz |\" ark:...' cannot be read" in told
    assert "allowCommands=true" in told
    assert "cntk kaldi-prepare" in told


@pytest.mark.thorough
def test_trained_and_decoded(meetings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unchanged but for the permission; the scores go through a pipe to the decoder, with the log beside them."""
    assert main([*TRAINING, "allowCommands=true"]) == 0
    assert "ali-to-post ark:- ark:-" in capsys.readouterr().err
    first = Path("exp/cntk.lstmp").read_bytes()
    words = [sys.executable, "-m", "cntk_core", *WRITING]
    decoder = "latgen-faster-mapped --beam=13.0 --acoustic-scale=0.0833 model graph ark:- ark:lat.txt"
    done = subprocess.run(
        f'{" ".join(words)} | {decoder}', shell=True, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    decoded = {line.split()[0]: line.split()[1:] for line in Path("lat.txt").read_text().splitlines()}
    assert {key: len(states) for key, states in decoded.items()} == LENGTHS
    right = [int(one) == t // 3 % STATES for states in decoded.values() for t, one in enumerate(states)]
    assert np.mean(right) > 0.5

    # The same with archives that were made before: to the same bytes.
    assert (
        main(["kaldi-prepare", "exp/Base.config+exp/lstmp.config", "DeviceNumber=-1", "command=TrainModel", "--yes"])
        == 0
    )
    said = capsys.readouterr().out
    assert "in the file exp/train.labels: ark:kaldi/TrainModel-reader-labels.ark" in said
    Path("exp/train.labels").write_text("ark:kaldi/TrainModel-reader-labels.ark\n")
    assert main([*TRAINING, "modelName=again"]) == 0
    assert Path("exp/again").read_bytes() == first
