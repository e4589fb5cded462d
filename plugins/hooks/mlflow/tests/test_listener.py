"""Trainings that MLflow hears of: against MLflow itself, with a database in a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cntk_hook_mlflow import MLflow
from cntk_hook_mlflow.listener import parameters_of
from cntk_hook_mlflow.tracking import clean

from cntk_core.api import CntkError, EpochSummary, Job, JobOutcome, MissingPluginError, Network, RefusedError, hookimpl
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log, run_recipe
from cntk_testing.inside import trusting_nothing

needs_mlflow = pytest.mark.skipif(
    find_spec("mlflow") is None or find_spec("sqlalchemy") is None, reason="MLflow is not installed"
)
pytestmark = pytest.mark.filterwarnings("default")  # MLflow's libraries warn of each other


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Any:
    """An empty database of MLflow: to make one takes seconds."""
    from mlflow.tracking import MlflowClient

    folder = tmp_path_factory.mktemp("mlflow")
    path = folder / "m.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").create_experiment("mine", str(folder / "artifacts"))
    return path


@pytest.fixture
def client(recipe, database) -> Any:
    from mlflow.tracking import MlflowClient

    (recipe.parent / "m.db").write_bytes(database.read_bytes())
    return MlflowClient(tracking_uri=address())


def address() -> str:
    """Of the database of this test: MLflow keeps connections by their address, so it is a whole path."""
    return f"sqlite:///{Path('m.db').absolute().as_posix()}"


def run(*arguments: str, listeners=()) -> None:
    words = ["mlflowExperiment=mine", f'mlflowTrackingUri="{address()}"', "mlflowRunName=first"]
    run_recipe(["configFile=r.cntk", *words, *arguments], Log(quiet=True), listeners=listeners)


def runs(client: Any) -> list[Any]:
    experiment = client.get_experiment_by_name("mine").experiment_id
    return list(client.search_runs([experiment], order_by=["attributes.start_time"]))


def steps(client: Any, name: str) -> list[int]:
    (only,) = runs(client)
    return [metric.step for metric in client.get_metric_history(only.info.run_id, name)]


@needs_mlflow
@pytest.mark.slow
def test_a_training_is_a_run(recipe, client):
    run()
    (told,) = runs(client)
    assert (told.info.run_name, told.info.status) == ("first", "FINISHED")
    assert told.data.params == {
        "maxEpochs": "2",
        "minibatchSize": "2",
        "learningRatesPerSample": "0.1",
        "parameters": "4",
    }
    assert set(told.data.metrics) == {"ce", "errs", "learningRatePerSample", "minibatchSize", "samplesPerSecond"}
    assert steps(client, "ce") == [1, 2]
    assert told.data.tags["cntk.recipe"] == "r.cntk"
    assert told.data.tags["cntk.model"] == str(recipe.parent / "run/net.dnn")
    assert [file.path for file in client.list_artifacts(told.info.run_id)] == ["r.cntk"]


@needs_mlflow
@pytest.mark.slow
def test_a_training_that_goes_on_continues_its_run(recipe, client):
    run()
    run("resume=true", "Train=[SGD=[maxEpochs=3]]")
    assert steps(client, "ce") == [1, 2, 3]
    run("makeMode=false")
    assert len(runs(client)) == 2


@needs_mlflow
@pytest.mark.slow
def test_how_it_ended(recipe, client):
    class Ending:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        @hookimpl
        def cntk_epoch_end(self, job, summary):
            raise self.error

    with pytest.raises(CntkError):
        run(listeners=[Ending(CntkError("enough"))])
    with pytest.raises(KeyboardInterrupt):
        run("makeMode=false", listeners=[Ending(KeyboardInterrupt())])
    assert [told.info.status for told in runs(client)] == ["FAILED", "KILLED"]


@needs_mlflow
@pytest.mark.slow
def test_what_mlflow_refuses_does_not_end_the_training(recipe, client):
    lines: list[str] = []
    log = Log(quiet=True)
    log.line = lines.append
    run_recipe(["configFile=r.cntk", "mlflowExperiment=mine", "mlflowTrackingUri=nobody://x"], log)
    assert (recipe.parent / "run/net.dnn").is_file()
    assert len([line for line in lines if line.startswith("hook cntk_job_begin of cntk-hook-mlflow")]) == 1


def job(text: str, rank: int = 0) -> Job:
    return Job("Train", "train", network=Network(), rank=rank, ranks=2, block=parse_text(text, file="r.cntk"))


def test_without_mlflow_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("cntk_hook_mlflow.listener.find_spec", lambda _: None)
    with pytest.raises(MissingPluginError) as caught:
        MLflow().cntk_job_begin(job("mlflowExperiment=mine"))
    assert str(caught.value) == "r.cntk:1:18: mlflowExperiment needs MLflow\n    pip install mlflow"


def test_a_recipe_of_strangers_talks_to_nobody(tmp_path):
    with trusting_nothing(tmp_path), pytest.raises(RefusedError, match="would run a command: MLflow's client"):
        MLflow().cntk_job_begin(job("mlflowExperiment=mine"))


@pytest.mark.parametrize(("text", "rank"), [("a=1", 0), ('mlflowExperiment=""', 0), ("mlflowExperiment=mine", 1)])
def test_who_does_not_ask_is_left_alone(text, rank, monkeypatch):
    monkeypatch.setattr("cntk_hook_mlflow.listener.find_spec", lambda _: None)
    listener = MLflow()
    listener.cntk_job_begin(job(text, rank))
    listener.cntk_epoch_end(EpochSummary(0, 4, 2, {"ce": 1.0}))
    listener.cntk_job_end(JobOutcome(True))


def test_parameters_are_the_values_of_the_block():
    block = parse_text('x=2\nSGD=[a=1; mlflowRunName=n; deep=[b="$x$ y"; c=$nobody$]; rates=0.1*2:0.2]').section("SGD")
    assert parameters_of(block) == {"a": "1", "deep.b": "2 y", "rates": "0.1*2:0.2"}


def test_names_that_mlflow_takes():
    assert clean("a:b[0]/c-d_e.f g") == "a_b_0_/c-d_e.f g"
