"""Trainings that write event files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cntk_hook_tensorboard import TensorBoard
from cntk_hook_tensorboard.event_file import EventFile
from event_records import Events

from cntk_core.api import ConfigError, EpochStart, EpochSummary, Job, MinibatchResult
from cntk_core.api.builders import parse_text
from cntk_kit_recipes.cli import main

RECIPE = """\
command = Train
precision = double
Train = [
    action = train
    modelPath = "run/net.dnn"
    BrainScriptNetworkBuilder = [
        features = Input{2}
        labels = Input{2}
        layer(x) = { W = Parameter{2, 2, init="fixedValue", value=0.5}; y = W * x }
        h = layer(features)
        z = h.y
        ce = CrossEntropyWithSoftmax(labels, z)
        errs = ClassificationError(labels, z)
        featureNodes = (features)
        labelNodes = (labels)
        criterionNodes = (ce)
        evaluationNodes = (errs)
        outputNodes = (z)
    ]
    SGD = [ maxEpochs=4; minibatchSize=1; learningRatesPerSample=0.1; numMBsToShowResult=2 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = false
        input = [ features = [ dim=2; format=dense ]; labels = [ dim=2; format=dense ] ]
    ]
    cvReader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = false
        input = [ features = [ dim=2; format=dense ]; labels = [ dim=2; format=dense ] ]
    ]
]
"""

DATA = """\
|features 1 0 |labels 1 0
|features 0 1 |labels 0 1
|features 2 1 |labels 1 0
|features 1 3 |labels 0 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The listener comes in as a plugin file, so that these tests do not depend on which wheels are installed.
    monkeypatch.setenv("CNTK_PLUGINS", _all_but_ours())
    (tmp_path / "mine.py").write_text(
        "from cntk_hook_tensorboard import TensorBoard\n"
        "from cntk_core.api import hookimpl\n"
        "_board = TensorBoard()\n"
        + "".join(
            f"@hookimpl\ndef {name}({arguments}):\n    return _board.{name}({arguments})\n"
            for name, arguments in (
                ("cntk_sgd_keys", ""),
                ("cntk_job_begin", "job"),
                ("cntk_epoch_begin", "job, epoch"),
                ("cntk_minibatch_end", "result"),
                ("cntk_epoch_end", "job, summary"),
                ("cntk_job_end", "outcome"),
            )
        ),
        encoding="utf-8",
    )
    (tmp_path / "r.cntk").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "train.ctf").write_text(DATA, encoding="utf-8")
    return tmp_path


def _all_but_ours() -> str:
    from importlib.metadata import distributions

    names = {distribution.metadata["Name"] for distribution in distributions()}
    return " ".join(name for name in names if name.startswith("cntk-") and name != "cntk-hook-tensorboard")


def train(*arguments: str) -> int:
    return main(["train", "r.cntk", "--plugin", "mine.py", *arguments])


def test_a_training(folder):
    assert train("tensorBoardLogDir=events", "Train=[SGD=[tensorBoardHistograms=2]]") == 0
    events = Events(folder / "events")
    assert len(events.files) == 1
    scalars = events.scalars
    epochs = [1, 2, 3, 4]
    for name in ("ce", "errs", "test_ce", "test_errs", "learningRatePerSample", "minibatchSize", "samplesPerSecond"):
        assert [step for step, _ in scalars[f"summary/{name}"]] == epochs
    for name in ("ce", "errs", "learningRatePerSample", "minibatchSize"):
        assert [step for step, _ in scalars[f"minibatch/{name}"]] == [2, 4, 6, 8, 10, 12, 14, 16]
    halves = [value for _, value in scalars["minibatch/ce"]]
    averages = [(first + second) / 2 for first, second in zip(halves[::2], halves[1::2], strict=True)]
    assert averages == pytest.approx([value for _, value in scalars["summary/ce"]])
    assert averages[-1] < averages[0]
    assert [value for _, value in scalars["summary/learningRatePerSample"]] == pytest.approx([0.1] * 4)
    assert set(events.histograms) == {"parameters/h.W"}
    first, last = events.histograms["parameters/h.W"]
    assert (first[0], last[0]) == (2, 4)
    assert first[1]["num"] == last[1]["num"] == 4
    assert first[1]["sum_squares"] != last[1]["sum_squares"]
    (graph,) = events.graphs
    op, inputs, shape = graph["h/W"]
    assert (op, inputs, shape) == ("LearnableParameter", [], [2, 2])
    assert graph["ce"][0] == "CrossEntropyWithSoftmax"
    assert set(graph["ce"][1]) <= set(graph)
    assert events.restarts == []


def test_what_there_is_can_be_looked_at_while_a_training_runs(folder):
    (folder / "look.py").write_text(
        "import shutil\n"
        "from cntk_core.api import hookimpl\n"
        "@hookimpl(trylast=True)\n"
        "def cntk_epoch_begin(job, epoch):\n"
        "    shutil.copytree('events', f'events{epoch.epoch}')\n",
        encoding="utf-8",
    )
    assert train("tensorBoardLogDir=events", "--plugin", "look.py") == 0
    before, after = Events(folder / "events0"), Events(folder / "events1")
    assert (len(before.graphs), before.scalars.keys()) == (1, set())
    assert [step for step, _ in after.scalars["minibatch/ce"]] == [2, 4]
    assert [step for step, _ in after.scalars["summary/ce"]] == [1]


def test_a_run_that_goes_on_counts_on_and_voids_what_came_after(folder):
    assert train("tensorBoardLogDir=events", "Train=[SGD=[maxEpochs=2]]") == 0
    assert train("tensorBoardLogDir=events", "Train=[resume=true]") == 0
    events = Events(folder / "events")
    assert len(events.files) == 2
    assert events.restarts == [9]
    assert len(events.graphs) == 1
    assert [step for step, _ in events.scalars["minibatch/ce"]] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert [step for step, _ in events.scalars["summary/ce"]] == [1, 2, 3, 4]
    assert events.histograms == {}


def test_a_run_that_goes_on_inside_an_epoch_counts_on(folder):
    (folder / "stop.py").write_text(
        "from cntk_core.api import hookimpl\n"
        "@hookimpl\ndef cntk_minibatch_end(result):\n"
        "    if (result.epoch, result.minibatch) == (1, 2):\n        raise KeyboardInterrupt\n",
        encoding="utf-8",
    )
    inside = "Train=[SGD=[checkpointEverySamples=1]]"
    assert train("tensorBoardLogDir=events", inside, "--plugin", "stop.py") == 130
    assert train("tensorBoardLogDir=events", "jsonLog=log.jsonl", inside) == 0
    events = Events(folder / "events")
    assert [step for step, _ in events.scalars["minibatch/ce"]] == [2, 4, 6, 8, 10, 12, 14, 16]
    (begun,) = [told for told in told_by(folder / "log.jsonl", "epoch_begin") if told["epoch"] == 2]
    assert begun["minibatches"] in (2, 3)
    assert begun["updates"] == 4 + begun["minibatches"]
    assert events.restarts == [begun["updates"] + 1]


def told_by(path: Path, event: str) -> list[dict]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [told for told in lines if told["event"] == event]


def test_fewer_values_within_epochs(folder):
    assert train("Train=[SGD=[tensorBoardLogDir=events; tensorBoardNumMBsToLogResult=8; maxEpochs=3]]") == 0
    scalars = Events(folder / "events").scalars
    (step, first) = scalars["minibatch/ce"][0]
    assert step == 8
    assert first == pytest.approx(sum(value for _, value in scalars["summary/ce"][:2]) / 2)
    assert len(scalars["minibatch/ce"]) == 1


def test_no_values_within_epochs(folder):
    assert train("Train=[SGD=[tensorBoardLogDir=events; tensorBoardNumMBsToLogResult=0; maxEpochs=1]]") == 0
    assert not any(tag.startswith("minibatch/") for tag in Events(folder / "events").scalars)


def test_without_the_key_nothing_is_written(folder):
    assert train("Train=[SGD=[maxEpochs=1]]") == 0
    assert not list(folder.rglob("*tfevents*"))


def test_a_negative_number_is_a_mistake_before_anything_is_trained(folder, capsys):
    assert train("tensorBoardLogDir=events", "Train=[SGD=[tensorBoardHistograms=-1]]") == 1
    assert "tensorBoardHistograms must not be negative, not -1" in capsys.readouterr().err
    assert not (folder / "events").exists()
    assert not (folder / "run/net.dnn").exists()


def test_a_folder_that_cannot_be_made_does_not_end_the_training(folder, capsys):
    (folder / "file").write_text("", encoding="utf-8")
    assert train("tensorBoardLogDir=file/events") == 0
    assert (folder / "run/net.dnn").is_file()
    error = capsys.readouterr().err
    assert error.count("hook cntk_job_begin of ") == 1
    assert "It is not called again in this run." in error


def test_a_disk_that_fills_up_does_not_end_the_training(folder, capsys, monkeypatch):
    written = []

    def scalars(self, values, step):
        written.append(step)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventFile, "scalars", scalars)
    assert train("tensorBoardLogDir=events") == 0
    assert (folder / "run/net.dnn").is_file()
    assert len(written) == 2  # within the first epoch, and at its end
    assert capsys.readouterr().err.count("No space left on device") == 2


def test_only_the_first_worker_writes(folder):
    board = TensorBoard()
    assert not board.listens_to("cntk_minibatch_end")
    assert board.listens_to("cntk_job_begin")
    block = parse_text("tensorBoardLogDir=events")
    board.cntk_job_begin(Job("Train", "train", rank=1, ranks=2, block=block))
    board.cntk_epoch_begin(Job("Train", "train"), EpochStart(0, 1, 0.1))
    board.cntk_minibatch_end(MinibatchResult(0, 0, 1, 1, {"ce": 1.0}))
    board.cntk_epoch_end(Job("Train", "train"), EpochSummary(0, 1, 1, {"ce": 1.0}))
    assert not (folder / "events").exists()


def test_a_folder_that_is_no_word(folder):
    with pytest.raises(ConfigError):
        TensorBoard().cntk_job_begin(
            Job(
                "Train",
                "train",
                network=_network(),
                block=parse_text("tensorBoardLogDir=events\ntensorBoardHistograms=x"),
            )
        )
    assert not Path("events").exists()


def _network():
    from cntk_core.api import Network

    return Network([])
