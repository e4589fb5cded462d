"""earlyStopping: training ends where it gets no better, and leaves the best parameters."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from small import TABLE, Lines, make_network, make_session
from test_best_models import VALIDATION, best_epochs, validation
from test_many_ranks import EXACT, OTHERS, type_of
from test_together import train as ranks_train

from cntk_core.errors import TrainingError
from cntk_core.network.model_file import load_model, read_model_info
from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.block.early_stopping import Best, EarlyStopping
from cntk_kit_recipes.session.rate_control import ControlState


def train(folder: Path, epochs: int, lines: Lines | None = None, *, stopping: EarlyStopping | None, **changes):
    settings = {**VALIDATION, "save_best_model_per_criterion": False, **changes}
    session = make_session(
        folder, lines, max_epochs=epochs, cv_reader=validation(), early_stopping=stopping, **settings
    )
    return session.run()


def values(path: Path) -> dict[str, bytes]:
    return {each.name: each.value.tobytes() for each in load_model(path, TABLE.find, None).parameters}


@pytest.mark.parametrize("patience", [1, 2])
def test_training_ends_with_the_best_parameters(tmp_path, patience):
    (tmp_path / "whole").mkdir()
    lines = Lines()
    train(tmp_path / "whole", 8, lines, stopping=None)
    best = best_epochs(lines)["ce"]
    assert best + patience < 8, "the case overfits"
    told = Lines()
    summary = train(tmp_path, 8, told, stopping=EarlyStopping(patience=patience))
    assert summary.epochs == summary.trained == best + patience
    assert summary.stopped == f"'ce' has not improved since epoch {best}"
    assert f"Training ends after epoch {best + patience}: {summary.stopped}" in told.all
    assert (
        told.all.count(
            f"earlyStopping: the final model has the parameters of epoch {best}, from '{tmp_path}/net.dnn.{best}'."
        )
        == 1
    )
    assert values(tmp_path / "net.dnn") == values(tmp_path / "whole" / f"net.dnn.{best}")
    assert read_model_info(tmp_path / "net.dnn").epochs == best + patience
    assert not (tmp_path / f"net.dnn.{best + patience}").exists()


def test_the_last_parameters_stay_if_the_best_are_not_wanted(tmp_path):
    (tmp_path / "whole").mkdir()
    train(tmp_path / "whole", 8, stopping=None)
    done = train(tmp_path, 8, stopping=EarlyStopping(patience=1, restore_best=False)).epochs
    assert values(tmp_path / "net.dnn") == values(tmp_path / "whole" / f"net.dnn.{done}")


def test_a_training_that_runs_to_its_end_has_the_best_parameters_too(tmp_path):
    lines = Lines()
    summary = train(tmp_path, 6, lines, stopping=EarlyStopping(patience=20))
    best = best_epochs(lines)["ce"]
    assert summary.epochs == 6
    assert not summary.stopped
    assert values(tmp_path / "net.dnn") == values(tmp_path / f"net.dnn.{best}")
    ends = train(tmp_path, 6, Lines(), stopping=EarlyStopping(patience=20))
    assert (ends.epochs, ends.trained) == (6, 0)


def test_a_run_that_goes_on_has_waited_before(tmp_path):
    (tmp_path / "whole").mkdir()
    stopping = EarlyStopping(patience=3)
    done = train(tmp_path / "whole", 9, stopping=stopping, keep_check_point_files=True).epochs
    train(tmp_path, done - 1, stopping=None, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (tmp_path / name).unlink()
    # What was watched without the key is not known: the count begins where the key does.
    first = train(tmp_path, 9, stopping=stopping, keep_check_point_files=True)
    assert first.trained > 1
    for name in ("net.dnn", "net.dnn.ckp", *(f"net.dnn.{epoch}{end}" for epoch in (done - 1,) for end in ("", ".ckp"))):
        (tmp_path / "whole" / name).unlink(missing_ok=True)
    again = train(tmp_path / "whole", 9, stopping=stopping, keep_check_point_files=True)
    assert again.epochs == done
    assert again.trained == 2


def test_other_criteria_and_small_gains(tmp_path):
    lines = Lines()
    train(tmp_path, 8, lines, stopping=EarlyStopping(patience=2, criterion="ERRS"))
    assert lines.with_text("'errs' has not improved since epoch ")
    (tmp_path / "b").mkdir()
    assert train(tmp_path / "b", 8, stopping=EarlyStopping(patience=2, min_delta=10.0)).epochs == 3
    (tmp_path / "c").mkdir()
    with pytest.raises(TrainingError) as caught:
        train(tmp_path / "c", 8, stopping=EarlyStopping(criterion="err"))
    assert str(caught.value) == (
        "earlyStopping looks at 'err', which is not computed; did you mean 'errs'?\n    There are ce, errs."
    )


def test_the_best_copies_are_of_their_epochs(tmp_path):
    (tmp_path / "whole").mkdir()
    stopping = EarlyStopping(patience=2)
    lines = Lines()
    done = train(tmp_path / "whole", 8, lines, stopping=stopping, save_best_model_per_criterion=True).epochs
    for name, epoch in best_epochs(lines).items():
        train(tmp_path, done + 1, stopping=None, keep_check_point_files=True)
        assert values(tmp_path / "whole" / f"net.dnn_{name}") == values(tmp_path / f"net.dnn.{epoch}")


def test_a_best_model_that_is_gone(tmp_path):
    class Hooks:
        def listeners(self, name):
            return (self.remove,) if name == "cntk_epoch_begin" else ()

        def remove(self, job, epoch):
            (tmp_path / "net.dnn.1").unlink(missing_ok=True)

    lines = Lines()
    train(tmp_path, 8, lines, stopping=EarlyStopping(patience=1, min_delta=10.0), hooks=Hooks())
    assert lines.with_text(f"Warning: the best model, of epoch 1, is not there any more: '{tmp_path}/net.dnn.1'. ")


def test_rates_that_are_adjusted_go_back_first(tmp_path):
    lines = Lines()
    options = AutoAdjust(auto_adjust_lr="after", load_best_model=True, use_cv_set_control_lr_if_cv_exists=True)
    summary = train(tmp_path, 12, lines, stopping=EarlyStopping(patience=4), auto_adjust=options)
    assert len(lines.with_text("rolling back")) == 4, "an epoch that is taken back is one without an improvement"
    assert summary.stopped == f"'ce' has not improved since epoch {summary.epochs}"
    assert lines.with_text("Training ends after epoch") == [
        f"Training ends after epoch {summary.epochs + 1}: {summary.stopped}"
    ]
    assert values(tmp_path / "net.dnn") != values(tmp_path / f"net.dnn.{summary.epochs - 1}")
    assert read_model_info(tmp_path / "net.dnn").epochs == summary.epochs


def test_what_is_better():
    best = Best().after(2.0, 1, 0.1)
    assert best == Best(2.0, 1)
    assert best.after(1.95, 2, 0.1) == best.after(math.nan, 2, 0.0) == best.missed() == Best(2.0, 1, waited=1)
    assert best.missed().after(1.0, 3, 0.0) == Best(1.0, 3)
    assert Best().after(math.nan, 1, 0.0) == Best(waited=1)
    assert best.after(1.5, 3, 0.1) == Best(1.5, 3)


def test_control_remembers_it():
    state = ControlState(watched=Best(1.5, 3))
    assert ControlState.of(state.entries()) == state
    entries = {key: value for key, value in state.entries().items() if key != "watched"}
    assert ControlState.of(entries) == attrs.evolve(state, watched=Best())


def test_parameters_of_the_network_are_those_of_the_best_epoch_in_place(tmp_path):
    network = make_network()
    train(tmp_path, 8, stopping=EarlyStopping(patience=1), network=network)
    found = {each.name: np.asarray(each.value).tobytes() for each in network.parameters}
    assert found == values(tmp_path / "net.dnn")


@pytest.mark.parametrize("name", ["full precision", "1 bit", "block momentum", "model averaging", "asynchronous"])
def test_all_ranks_end_together_with_the_best_parameters(tmp_path, name):
    lines = [Lines() for _ in range(2)]
    strategy = type_of({**EXACT, **OTHERS}[name])
    changes = {**VALIDATION, "save_best_model_per_criterion": False, "max_epochs": 12}
    stopping = EarlyStopping(patience=2)
    ranks = ranks_train(tmp_path, 2, strategy, lines=lines, cv_reader=validation(), early_stopping=stopping, **changes)
    best = best_epochs(lines[0])["ce"]
    expected = values(tmp_path / f"net.dnn.{best}")
    for found, summary in ranks:
        assert summary.stopped == f"'ce' has not improved since epoch {best}"
        assert {key: value.tobytes() for key, value in found.items()} == expected
    assert values(tmp_path / "net.dnn") == expected
