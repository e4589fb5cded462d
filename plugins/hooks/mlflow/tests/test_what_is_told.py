"""What MLflow is told, by a client that only notes it: also where MLflow is not installed."""

from __future__ import annotations

import sys
from collections import namedtuple
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from cntk_hook_mlflow import MLflow
from cntk_hook_mlflow.tracking import KEY_TAG, TrackedRun

from cntk_core.api import EpochSummary, Job, JobOutcome, Network, Parameter
from cntk_core.api.builders import parse_text

Metric = namedtuple("Metric", "key value timestamp step")
Param = namedtuple("Param", "key value")
RunTag = namedtuple("RunTag", "key value")


class Client:
    """Notes what it is told; knows one experiment and, of that, the runs that were begun."""

    told: list
    begun: list

    def __init__(self, tracking_uri):
        self.told.append(("client", tracking_uri))

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id="7") if name == "mine" else None

    def create_experiment(self, name):
        self.told.append(("experiment", name))
        return "8"

    def create_run(self, experiment, tags, run_name):
        self.begun.append((experiment, tags[KEY_TAG]))
        self.told.append(("run", experiment, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id=f"r{len(self.begun)}"))

    def search_runs(self, experiments, filter_string, order_by, max_results):
        assert (order_by, max_results) == (["attributes.start_time DESC"], 1)
        key = filter_string.removeprefix(f"tags.`{KEY_TAG}` = '").removesuffix("'")
        numbers = [number for number, one in enumerate(self.begun, 1) if one == (experiments[0], key)]
        return [SimpleNamespace(info=SimpleNamespace(run_id=f"r{number}")) for number in reversed(numbers)]

    def update_run(self, run, status):
        self.told.append((run, "update", status))

    def log_batch(self, run, tags=(), params=(), metrics=()):
        self.told.append((run, *[dict(each[:2] for each in these) for these in (tags, params, metrics) if these]))
        for metric in metrics:
            assert abs(metric.timestamp) > 1e12  # milliseconds
            self.told.append((run, metric.key, metric.step))

    def log_artifact(self, run, path):
        self.told.append((run, "file", path))

    def set_terminated(self, run, status):
        self.told.append((run, "end", status))


@pytest.fixture
def told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Client.told, Client.begun = [], []
    for name, parts in (
        ("mlflow", {}),
        ("mlflow.tracking", {"MlflowClient": Client}),
        ("mlflow.entities", {"Metric": Metric, "Param": Param, "RunTag": RunTag}),
    ):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(parts)
        monkeypatch.setitem(sys.modules, name, module)
    return Client.told


def begin(first_epoch=0, text='mlflowExperiment=mine; mlflowRunName=first; maxEpochs=2; deep=[a="b"]', network=True):
    listener, made = MLflow(), Network()
    for name, shape in (("W", (2, 3)), ("b", (3,))):
        made.add(Parameter.make(name, shape))
    block = parse_text(text, file="r.cntk")
    listener.cntk_job_begin(
        Job(
            *("Train", "train"),
            network=made if network else None,
            block=block,
            model_path=Path("net.dnn"),
            engine="cpu",
            first_epoch=first_epoch,
        )
    )
    return listener


def test_a_training_from_begin_to_end(told, tmp_path):
    Path("r.cntk").touch()
    listener = begin()
    assert told == [
        ("client", None),
        ("run", "7", "first"),
        (
            "r1",
            {
                "cntk.command": "Train",
                "cntk.recipe": "r.cntk",
                "cntk.model": str(tmp_path / "net.dnn"),
                "cntk.engine": "cpu",
            },
        ),
        ("r1", {"maxEpochs": "2", "deep.a": "b", "parameters": "9"}),
        ("r1", "file", "r.cntk"),
    ]
    told.clear()
    summary = EpochSummary(2, 100, 5, {"ce": 1.5}, {"ce": 2.5}, learning_rate=0.1, minibatch_size=20, seconds=0.5)
    listener.cntk_epoch_end(summary)
    metrics = {
        "ce": 1.5,
        "test_ce": 2.5,
        "learningRatePerSample": 0.1,
        "minibatchSize": 20.0,
        "samplesPerSecond": 200.0,
    }
    assert told == [("r1", metrics), *(("r1", name, 3) for name in metrics)]
    told.clear()
    listener.cntk_job_end(JobOutcome(True))
    listener.cntk_job_end(JobOutcome(True))
    listener.cntk_epoch_end(summary)
    assert told == [("r1", "end", "FINISHED")]


def test_an_epoch_without_time_has_no_speed(told):
    listener = begin()
    assert not Path("r.cntk").is_file()
    assert ("r1", "file", "r.cntk") not in told
    told.clear()
    listener.cntk_epoch_end(EpochSummary(0, 100, 5, {"ce": 1.5}))
    assert "samplesPerSecond" not in told[0][1]


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError(), "FAILED"), (KeyboardInterrupt(), "KILLED"), (None, "KILLED")]
)
def test_how_it_ended(told, error, status):
    begin().cntk_job_end(JobOutcome(False, error=error))
    assert told[-1] == ("r1", "end", status)


def test_a_training_that_goes_on_continues_its_last_run(told):
    begin()
    begin()
    told.clear()
    begin(first_epoch=1).cntk_job_end(JobOutcome(True))
    assert told == [("client", None), ("r2", "update", "RUNNING"), ("r2", "end", "FINISHED")]
    told.clear()
    begin(first_epoch=1, text="mlflowExperiment=other; mlflowTrackingUri=there")
    assert told[:3] == [("client", "there"), ("experiment", "other"), ("run", "8", None)]


def test_what_trains_nothing_is_not_told(told):
    listener = begin(network=False)
    listener.cntk_job_end(JobOutcome(True))
    assert told == []


def test_parameters_go_in_hundreds_and_not_too_long(told):
    run = TrackedRun("", "mine", "", "key", goes_on=False)
    told.clear()
    run.parameters({f"p:{number}": "x" * 501 for number in range(201)})
    assert [len(each[1]) for each in told] == [100, 100, 1]
    assert told[2][1] == {"p_200": "x" * 500}
