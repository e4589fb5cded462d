"""Trainings that Weights & Biases hears of: against its own library, offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_hook_wandb import WandB
from cntk_hook_wandb.listener import settings_of

from cntk_core.api import (
    CntkError,
    ConfigError,
    EpochSummary,
    Job,
    JobOutcome,
    MissingPluginError,
    Network,
    RefusedError,
    hookimpl,
)
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import Log, run_recipe
from cntk_testing.inside import trusting_nothing

needs_wandb = pytest.mark.skipif(find_spec("wandb") is None, reason="the library of Weights & Biases is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # its libraries warn of each other


@pytest.fixture
def offline(recipe, monkeypatch) -> Path:
    """W&B is offline, and takes nothing from this machine's settings. It reads them once in a process."""
    import wandb

    for name, value in {"MODE": "offline", "DIR": str(recipe.parent), "SILENT": "true", "X_DISABLE_STATS": "1"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(recipe.parent / "config"))
    wandb.teardown()
    return recipe.parent / "wandb"


def run(*arguments: str, listeners=(), lines: list[str] | None = None) -> None:
    log = Log(quiet=True)
    if lines is not None:
        log.line = lines.append
    run_recipe(["configFile=r.cntk", "wandbProject=mine", "wandbRunName=first", *arguments], log, listeners=listeners)


@needs_wandb
@pytest.mark.slow
def test_a_training_is_a_run(recipe, offline):
    from offline_runs import runs

    run()
    (told,) = runs(offline)
    assert (told.project, told.name, told.exit_code) == ("mine", "first", 0)
    own = {key: value for key, value in told.settings.items() if key not in ("_wandb", "cntk")}
    assert own == {"maxEpochs": "2", "minibatchSize": "2", "learningRatesPerSample": "0.1", "parameters": 4}
    known = told.settings["cntk"]
    assert (known["command"], known["recipe"]) == ("Train", "r.cntk")
    assert (known["model"], known["engine"]) == (str(recipe.parent / "run/net.dnn"), "cpu")
    assert [row["epoch"] for row in told.history] == [1, 2]
    metrics = {"ce", "errs", "learningRatePerSample", "minibatchSize", "samplesPerSecond", "epoch"}
    assert {key for key in told.history[0] if not key.startswith("_")} == metrics
    assert told.history[0]["learningRatePerSample"] == 0.1
    assert told.history[1]["ce"] < told.history[0]["ce"]
    assert "r.cntk" in told.files


@needs_wandb
@pytest.mark.slow
def test_a_training_that_goes_on_continues_its_run(recipe, offline):
    from offline_runs import runs

    run()
    run("resume=true", "Train=[SGD=[maxEpochs=3]]")
    first, second = runs(offline)
    assert first.id == second.id
    assert [row["epoch"] for told in (first, second) for row in told.history] == [1, 2, 3]
    run("makeMode=false")
    assert len({told.id for told in runs(offline)}) == 2


@needs_wandb
@pytest.mark.slow
def test_how_it_ended(recipe, offline):
    from offline_runs import runs

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
    assert [told.exit_code for told in runs(offline)] == [1, 255]


@needs_wandb
@pytest.mark.slow
def test_a_run_of_the_script_itself_is_not_disturbed(recipe, offline):
    import wandb
    from offline_runs import runs

    with wandb.init(project="its own") as own:
        run()
        own.log({"after": 1})
        assert wandb.run is own
    told = {each.project: each for each in runs(offline)}
    assert [row["after"] for row in told["its own"].history] == [1]
    assert "ce" not in told["its own"].history[0]
    assert len(told["mine"].history) == 2


@needs_wandb
@pytest.mark.slow
def test_what_is_refused_does_not_end_the_training(recipe, offline):
    lines: list[str] = []
    run("wandbProject=a/b", lines=lines)  # no name of a project
    assert (recipe.parent / "run/net.dnn").is_file()
    assert len([line for line in lines if line.startswith("hook cntk_job_begin of cntk-hook-wandb")]) == 1


@needs_wandb
@pytest.mark.slow
def test_w_and_b_that_is_switched_off_hears_nothing(recipe, offline, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    lines: list[str] = []
    run(lines=lines)
    assert not [line for line in lines if line.startswith("hook ")]
    assert not offline.exists()


def job(text: str, rank: int = 0) -> Job:
    return Job("Train", "train", network=Network(), rank=rank, ranks=2, block=parse_text(text, file="r.cntk"))


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("cntk_hook_wandb.listener.find_spec", lambda _: None)
    with pytest.raises(MissingPluginError) as caught:
        WandB().cntk_job_begin(job("wandbProject=mine"))
    hint = 'pip install "cntk-hook-wandb[wandb]"'
    assert str(caught.value) == f"r.cntk:1:14: wandbProject needs the library wandb\n    {hint}"


def test_a_mode_that_there_is_not(monkeypatch):
    monkeypatch.setattr("cntk_hook_wandb.listener.find_spec", lambda _: True)
    with pytest.raises(ConfigError) as caught:
        WandB().cntk_job_begin(job("wandbProject=mine\nwandbMode=oflline"))
    assert str(caught.value) == (
        "r.cntk:2:11: wandbMode is 'oflline'; did you mean 'offline'?\n    It is online or offline."
    )


def test_a_recipe_of_strangers_talks_to_nobody(tmp_path):
    wanted = "would run a command: the client of Weights & Biases"
    with trusting_nothing(tmp_path), pytest.raises(RefusedError, match=wanted):
        WandB().cntk_job_begin(job("wandbProject=mine"))


@pytest.mark.parametrize(("text", "rank"), [("a=1", 0), ('wandbProject=""', 0), ("wandbProject=mine", 1)])
def test_who_does_not_ask_is_left_alone(text, rank, monkeypatch):
    monkeypatch.setattr("cntk_hook_wandb.listener.find_spec", lambda _: None)
    listener = WandB()
    listener.cntk_job_begin(job(text, rank))
    listener.cntk_epoch_end(EpochSummary(0, 4, 2, {"ce": 1.0}))
    listener.cntk_job_end(JobOutcome(True))


def test_settings_are_the_values_of_the_block():
    block = parse_text('x=2\nSGD=[a=1; wandbRunName=n; deep=[b="$x$ y"; c=$nobody$]; rates=0.1*2:0.2]').section("SGD")
    assert settings_of(block) == {"a": "1", "deep": {"b": "2 y"}, "rates": "0.1*2:0.2"}
