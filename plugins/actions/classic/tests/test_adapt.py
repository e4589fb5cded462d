"""The action adapt, with and without a penalty on the divergence from the start model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_action_classic.adapt import MixedLabels
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, DataReader, EpochSpec, Minibatch, ReaderContext
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log
from cntk_kit_recipes.cli import main
from cntk_testing.inside import ActionContext, Saver

ADAPT = """
Adapt = [
    action = adapt
    modelPath = "run/adapted.dnn"
    origModelFileName = "run/net.dnn"
    refNodeName = p
    SGD = [ maxEpochs = 1 ; minibatchSize = 4 ; learningRatesPerSample = 0.1 ; momentumPerMB = 0 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = false
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
    ]
]
"""

FEATURES = np.array([[1.0, 0], [0, 1], [2, 1], [1, 3]])
LABELS = np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]])


@pytest.fixture(autouse=True)
def started(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8").replace("OutputNodes = (z)", "OutputNodes = (p)")
    recipe.write_text(text.replace("ce = Cross", "p = Softmax(z)\n            ce = Cross") + ADAPT, encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0


def weights(model: str) -> NDArray[np.float64]:
    """In CNTK's order, [2 x 2]: z = W x."""
    network = ActionContext.create(parse_text("precision = double"), Log(quiet=True)).load_model(model)
    value = network["W"].value
    assert value is not None
    return np.asarray(value).T


def softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))


def step(start: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """One step of gradient descent on the cross entropy, in double precision."""
    return start - 0.1 * (softmax(FEATURES @ start.T) - labels).T @ FEATURES


def adapt(*arguments: str, status: int = 0) -> None:
    assert main(["configFile=r.cntk", "command=Adapt", *arguments]) == status


def test_without_regularization() -> None:
    adapt()
    start = weights("run/net.dnn")
    np.testing.assert_allclose(weights("run/adapted.dnn"), step(start, LABELS), rtol=1e-12)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_labels_are_mixed_with_the_reference(share: float) -> None:
    adapt(f"Adapt=[SGD=[adaptationRegType=KL;adaptationRegWeight={share}]]")
    start = weights("run/net.dnn")
    mixed = (1 - share) * LABELS + share * softmax(FEATURES @ start.T)
    np.testing.assert_allclose(weights("run/adapted.dnn"), step(start, mixed), rtol=1e-12)
    if share == 1:
        np.testing.assert_allclose(weights("run/adapted.dnn"), start)


def test_the_reference_stays_while_the_model_learns() -> None:
    adapt("Adapt=[SGD=[adaptationRegType=klReg;adaptationRegWeight=0.5;minibatchSize=4;maxEpochs=3]]")
    start = weights("run/net.dnn")
    mixed = 0.5 * LABELS + 0.5 * softmax(FEATURES @ start.T)
    expected = start
    for _ in range(3):
        expected = step(expected, mixed)
    np.testing.assert_allclose(weights("run/adapted.dnn"), expected, rtol=1e-12)


class Stop(BaseException):
    """Ends a run as somebody at the keyboard would."""


def test_it_goes_on_inside_an_epoch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sgd = "Adapt=[SGD=[adaptationRegType=kl;adaptationRegWeight=0.5;minibatchSize=1;checkpointEverySamples=2]]"
    adapt(sgd)
    straight = weights("run/adapted.dnn")
    with monkeypatch.context() as patch:
        real = Saver.save_inside

        def stop(saver: Saver, progress: Any, position: Any, of_ranks: Any = None) -> bool:
            real(saver, progress, position, of_ranks)
            raise Stop

        patch.setattr(Saver, "save_inside", stop)
        with pytest.raises(Stop):
            adapt(sgd, "Adapt=[modelPath=run/stopped.dnn]")
    capsys.readouterr()
    adapt(sgd, "Adapt=[modelPath=run/stopped.dnn]")
    assert "2 minibatches of the next epoch" in capsys.readouterr().err
    np.testing.assert_array_equal(weights("run/stopped.dnn"), straight)


def test_sparse_labels() -> None:
    text = Path("r.cntk").read_text(encoding="utf-8").replace("labels = Input(2)", "labels = SparseInput(2)")
    begin, name, end = text.partition("Adapt = [")
    Path("r.cntk").write_text(
        begin.replace("labels = [ dim = 2 ; format = dense ]", "labels = [ dim = 2 ; format = sparse ]")
        + name
        + end.replace("labels = [ dim = 2 ; format = dense ]", "labels = [ dim = 2 ; format = sparse ]"),
        encoding="utf-8",
    )
    sparse = "".join(
        f"|features {x:g} {y:g} |labels {int(b)}:1\n" for (x, y), (_, b) in zip(FEATURES, LABELS, strict=True)
    )
    Path("train.ctf").write_text(sparse, encoding="utf-8")
    assert main(["configFile=r.cntk", "makeMode=false"]) == 0
    adapt("Adapt=[SGD=[adaptationRegType=kl;adaptationRegWeight=0.25]]")
    start = weights("run/net.dnn")
    mixed = 0.75 * LABELS + 0.25 * softmax(FEATURES @ start.T)
    np.testing.assert_allclose(weights("run/adapted.dnn"), step(start, mixed), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "SGD=[adaptationRegType=l2]",
            "<command line>:3:13: adaptationRegType must be none or kl, not 'l2'\n",
        ),
        (
            "SGD=[adaptationRegType=kl;adaptationRegWeight=2]",
            "<command line>:3:34: adaptationRegWeight must be in [0, 1], not 2\n",
        ),
        (
            "SGD=[adaptationRegType=kl;adaptationRegWeight=0.5];refNodeName=y",
            "<command line>:3:71: the network has no node 'y'\n",
        ),
        (
            "SGD=[adaptationRegType=kl;adaptationRegWeight=0.5];refNodeName=ce",
            "<command line>:3:71: the reference 'ce' [1] cannot be mixed with the labels 'labels' [2 x *]\n"
            "    Name a node with one value for each label, such as the softmax of the network's output.\n",
        ),
        (
            "origModelFileName=no.dnn",
            "<command line>:3:26: the model 'no.dnn' does not exist\n    Train it first, or mend modelPath.\n",
        ),
    ],
)
def test_mistakes(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    adapt(f"Adapt=[{arguments}]", status=1)
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == message


def test_what_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("r.cntk").read_text(encoding="utf-8")
    Path("r.cntk").write_text(text.replace("    refNodeName = p\n", ""), encoding="utf-8")
    capsys.readouterr()
    adapt("Adapt=[SGD=[adaptationRegType=kl;adaptationRegWeight=0.5]]", status=1)
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == (
        "r.cntk:50:1: required parameter missing: Adapt:refNodeName\n"
        "    It names the node of the start model whose value is mixed with the labels: its softmax.\n"
    )


def test_readers_are_asked_how_much_they_want() -> None:
    class Doubling(DataReader):
        streams = ()

        def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
            return iter(())

        def minibatch_factor(self, epoch: int) -> int:
            return 2 * epoch

        def check(self) -> Iterator[CntkError]:
            yield DataError("nothing to read")

    mixed = MixedLabels(Doubling(None, ReaderContext()), None)
    assert mixed.minibatch_factor(3) == 6
    assert [error.message for error in mixed.check()] == ["nothing to read"]
