"""What a wrong section is told, word by word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cntk_builder_simple import SimpleNetworkBuilder

from cntk_core.api import BuildContext, CntkError, core_ops
from cntk_core.api.builders import parse_text

CLASSES = "trainingCriterion=classCrossEntropyWithSoftmax\nevalCriterion=classCrossEntropyWithSoftmax"
NOISE = "trainingCriterion=noiseContrastiveEstimation\nevalCriterion=noiseContrastiveEstimation"

CASES = {
    "one size": (
        "layerSizes=4",
        "r.cntk:2:1: layerSizes must have at least two sizes, of the input and of the output\n"
        "    Write layerSizes=64:256:10 for 64 inputs, a hidden layer of 256 and 10 outputs.",
    ),
    "size of 0": (
        "layerSizes=4:0:3",
        "r.cntk:2:1: a layer of size 0 is not possible",
    ),
    "no layer type": (
        "layerSizes=4:3\nlayerTypes=::",
        "r.cntk:3:1: layerTypes names no type\n"
        "    Leave it out, or write one or more of Sigmoid, RectifiedLinear, Tanh, None, separated with ':'.",
    ),
    "layer type": (
        "layerSizes=4:3\nlayerTypes=Sigmoid:Sigmod",
        "r.cntk:3:1: there is no layer type 'Sigmod'; did you mean 'Sigmoid'?\n"
        "    Accepted: Sigmoid, RectifiedLinear, Tanh, None",
    ),
    "training criterion": (
        "layerSizes=4:3\ntrainingCriterion=classificationError",
        "r.cntk:3:1: there is no trainingCriterion 'classificationError'\n"
        "    Accepted: crossEntropyWithSoftmax, squareError, logistic",
    ),
    "evaluation criterion": (
        "layerSizes=4:3\nevalCriterion=errorPredicton",
        "r.cntk:3:1: there is no evalCriterion 'errorPredicton'; did you mean 'errorPrediction'?\n"
        "    Accepted: crossEntropyWithSoftmax, squareError, logistic, classificationError, errorPrediction",
    ),
    "kind": (
        "layerSizes=4:3\nrnnType=SIMPLNET",
        "r.cntk:3:1: there is no rnnType 'SIMPLNET'; did you mean 'SIMPLENET'?\n    Accepted: SIMPLENET, FFDNN, "
        "SIMPLERNN, LSTM, CLASSLM, LBLM, NPLM, CLASSLSTM, NCELSTM, CLSTM, CRF",
    ),
    "value": (
        "layerSizes=4:3\nuniformInit=perhaps",
        "r.cntk:3:13: SimpleNetworkBuilder:uniformInit must be true or false, not 'perhaps'\n"
        "    Accepted: true, True, TRUE, t, T, 1, false, False, FALSE, f, F, 0.",
    ),
    "number": (
        "layerSizes=4:5:3\nrnnType=SIMPLERNN\nrecurrentLayer=one",
        "r.cntk:4:16: SimpleNetworkBuilder:recurrentLayer[0] must be a whole number, not 'one'\n"
        "    Accepted: a whole number of at most 64 bits, written out.",
    ),
    "recurrent layers out of range": (
        "layerSizes=4:5:3\nrnnType=SIMPLERNN\nrecurrentLayer=0:1:2",
        "r.cntk:4:1: recurrentLayer 0 is not a hidden layer\n    layerSizes makes the hidden layers 1 to 1.\n"
        "r.cntk:4:1: recurrentLayer 2 is not a hidden layer\n    layerSizes makes the hidden layers 1 to 1.\n"
        "2 problems found",
    ),
    "no layer that could be recurrent": (
        "layerSizes=4:3\nrnnType=LSTM\nrecurrentLayer=1",
        "r.cntk:4:1: recurrentLayer 1 is not a hidden layer\n    layerSizes makes no hidden layer.",
    ),
    "classes": (
        "layerSizes=4:5:4\nrnnType=CLASSLM",
        "r.cntk:1:1: rnnType=CLASSLM needs vocabSize\n    It is the number of words, and the last of layerSizes.\n"
        "r.cntk:1:1: rnnType=CLASSLM needs nbrClass\n    It is the number of classes of words, such as nbrClass=50.\n"
        "r.cntk:1:1: trainingCriterion=crossEntropyWithSoftmax does not fit a network of rnnType CLASSLM\n"
        "    Accepted: classCrossEntropyWithSoftmax\n"
        "r.cntk:1:1: evalCriterion=classificationError does not fit a network of rnnType CLASSLM\n"
        "    Accepted: classCrossEntropyWithSoftmax\n"
        "4 problems found",
    ),
    "vocabulary": (
        f"layerSizes=4:5:4\nrnnType=CLASSLM\nvocabSize=5\nnbrClass=0\n{CLASSES}",
        "r.cntk:5:1: rnnType=CLASSLM needs nbrClass, at least 1, not 0\n"
        "    It is the number of classes of words, such as nbrClass=50.\n"
        "r.cntk:4:1: vocabSize=5 is not the size of the output, 4\n    The last of layerSizes must be vocabSize.\n"
        "2 problems found",
    ),
    "look-up": (
        f"layerSizes=4:5:4\nrnnType=CLASSLSTM\nnbrClass=2\n{CLASSES}",
        "r.cntk:2:1: rnnType=CLASSLSTM needs at least 4 layerSizes, not 3\n"
        "    They are the sizes of: input, hidden layer, output.\n"
        "r.cntk:1:1: rnnType=CLASSLSTM needs lookupTableOrder\n"
        "    With lookupTableOrder=1 and layerSizes=10000:100:200:10000 each word becomes 100 numbers.\n"
        "2 problems found",
    ),
    "order": (
        "layerSizes=7:5:4:3\nrnnType=LSTM\nlookupTableOrder=2",
        "r.cntk:4:1: the size of the input, 7, is not a multiple of lookupTableOrder=2\n"
        "    The input holds lookupTableOrder one-hot words, one after the other.",
    ),
    "noise and links": (
        f"layerSizes=4:5:4\nrnnType=NCELSTM\ndirectConnect=1:2:1\n{NOISE}",
        "r.cntk:4:1: directConnect names layer 1 more than once\n"
        "r.cntk:4:1: directConnect 2 is not a layer that can be linked\n    Layers that can: 0 to 1.\n"
        "r.cntk:1:1: rnnType=NCELSTM needs noise_number\n"
        "    It is the number of samples of noise for each word, such as noise_number=10.\n"
        "3 problems found",
    ),
    "second input": (
        f"layerSizes=4:5:4:4\nrnnType=CLSTM\nnbrClass=2\nlookupTableOrder=1\nauxfeatdim=0\n{CLASSES}",
        "r.cntk:6:1: auxfeatdim must be at least 1, not 0",
    ),
    "earlier inputs": (
        "layerSizes=4:5:4\nrnnType=LBLM\nmaOrder=-1",
        "r.cntk:4:1: maOrder must be at least 0, not -1",
    ),
    "criteria of other kinds": (
        "layerSizes=4:5:4\ntrainingCriterion=classCrossEntropyWithSoftmax\nevalCriterion=noiseContrastiveEstimation",
        "r.cntk:3:1: trainingCriterion=classCrossEntropyWithSoftmax does not fit a feed-forward network; "
        "it is for rnnType CLASSLM, CLASSLSTM or CLSTM\n"
        "    Accepted: crossEntropyWithSoftmax, squareError, logistic\n"
        "r.cntk:4:1: evalCriterion=noiseContrastiveEstimation does not fit a feed-forward network; "
        "it is for rnnType NCELSTM\n"
        "    Accepted: crossEntropyWithSoftmax, squareError, logistic, classificationError, errorPrediction\n"
        "2 problems found",
    ),
    "sequence criterion": (
        "layerSizes=4:5:4\ntrainingCriterion=sequenceWithSoftmax",
        "r.cntk:3:1: SimpleNetworkBuilder cannot make the criterion sequenceWithSoftmax, nor could the original's\n"
        "    Train with crossEntropyWithSoftmax and needPrior=true, then let action=edit add\n"
        "    SequenceWithSoftmax(labels, HLast, ScaledLogLikelihood).",
    ),
    "everything at once": (
        "layerSizes=4:-5:3\nlayerTypes=Sigmod\nrnnType=LSTN\ninitValueScale=1",
        "r.cntk:2:1: a layer of size -5 is not possible\n"
        "r.cntk:3:1: there is no layer type 'Sigmod'; did you mean 'Sigmoid'?\n"
        "    Accepted: Sigmoid, RectifiedLinear, Tanh, None\n"
        "r.cntk:4:1: there is no rnnType 'LSTN'; did you mean 'LSTM'?\n    Accepted: SIMPLENET, FFDNN, "
        "SIMPLERNN, LSTM, CLASSLM, LBLM, NPLM, CLASSLSTM, NCELSTM, CLSTM, CRF\n"
        "3 problems found",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_messages(case: str, message: Callable[[str], str]) -> None:
    text, expected = CASES[case]
    assert message(text) == expected


def test_unknown_key(message: Callable[[str], str]) -> None:
    assert message("layerSize=4:3\nlayerSizes=4:3").splitlines()[0] == (
        "r.cntk:2:1: SimpleNetworkBuilder has no option 'layerSize'; did you mean 'layerSizes'?"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "layerType=Tanh\nnodeType=Tanh\naddPrior=true\nlayerSizes=4:3",
            [
                "r.cntk:2:1: layerType has no effect, as in the original; did you mean 'layerTypes'?",
                "r.cntk:3:1: nodeType has no effect, as in the original; did you mean 'layerTypes'?",
                "r.cntk:4:1: addPrior has no effect, as in the original; did you mean 'needPrior'?",
            ],
        ),
        (
            "layerSizes=4:3\nword2cls=a.txt\ncls2index=b.txt\nstreamSizes=1:2\nlabelEmbeddingSize=3\nrnnType=LSTM",
            [
                "r.cntk:3:1: word2cls has no effect in a network of rnnType LSTM",
                "r.cntk:4:1: cls2index has no effect in a network of rnnType LSTM",
                "r.cntk:5:1: streamSizes has no effect in a network of rnnType LSTM",
                "r.cntk:6:1: labelEmbeddingSize has no effect in a network of rnnType LSTM",
            ],
        ),
        (
            "layerSizes=4:5:6:7:8:3\nrnnType=SIMPLERNN\nrecurrentLayer=3:2",
            [
                "r.cntk:4:1: recurrentLayer 2 chooses no layer; "
                "can be chosen: 1, 2, 3, 4, in ascending order"
            ],
        ),
        (
            "layerSizes=4:5:3\nrnnType=LSTM\nrecurrentLayer=1",
            ["r.cntk:4:1: recurrentLayer 1 chooses no layer; the first LSTM layer is there anyway"],
        ),
        (
            f"layerSizes=4:5:5:4\nrnnType=CLASSLSTM\nnbrClass=2\nlookupTableOrder=1\nvocabSize=5\n{CLASSES}",
            [
                "r.cntk:6:1: vocabSize=5 has no effect: the last of layerSizes counts "
                "in a network of rnnType CLASSLSTM"
            ],
        ),
        ("layerSizes=4:5:3\nrnnType=FFDNN\noutputLayerSize=3\ndeviceId=auto", []),
        ("layerSizes=4:5:3\nrnnType=FFDNN\noutputLayerSize=-1", []),
        (
            "layerSizes=4:5:3\nrnnType=FFDNN\noutputLayerSize=-2",
            ["r.cntk:4:1: outputLayerSize has no effect in a feed-forward network"],
        ),
    ],
)  # fmt: skip
def test_remarks(text: str, said: list[str], build: Any) -> None:
    lines: list[str] = []
    build(text, trace=lines.append)
    assert lines == said


@pytest.mark.parametrize(
    ("kind", "plain", "with_table"),
    [
        ("LSTM", 2, 4),
        ("LBLM", 2, 3),
        ("CLASSLSTM", 4, 4),
        ("NCELSTM", 3, 4),
        ("CLSTM", 4, 4),
        ("CRF", 2, 3),
    ],
)
def test_the_fewest_layers(kind: str, plain: int, with_table: int, build: Any) -> None:
    for order, fewest, table in ((0, plain, ""), (1, with_table, " with lookupTableOrder")):
        for count in {2, max(2, fewest - 1), fewest}:
            sizes, said = ":".join(["4"] * count), ""
            try:
                build(f"layerSizes={sizes}\nrnnType={kind}\nlookupTableOrder={order}")
            except CntkError as error:  # perhaps of other keys that such a network needs
                said = str(error)
            line = f"r.cntk:2:1: rnnType={kind}{table} needs at least {fewest} layerSizes, not {count}\n"
            assert (line in said) == (count < fewest)


def test_no_layer_sizes_beside_a_vocabulary():
    text = "SimpleNetworkBuilder = [ rnnType = CLASSLM ; layerSizes = ; vocabSize = 50 ; nbrClass = 5 ]"
    value = parse_text(text).get("SimpleNetworkBuilder")
    table = core_ops()
    context = BuildContext(find_op=table.find, op_names=lambda language: ())
    with pytest.raises(CntkError) as caught:
        SimpleNetworkBuilder().build(value, context)
    assert "layerSizes" in str(caught.value)
