"""Fitting: the loop is the trainer's, and everything about it can be relied on."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_fit import Callback, EarlyStopping, Estimator, History
from cntk_fit.progress import NotebookBar
from cntk_fit.stopping import Watch
from fit_problems import CLASSES, SENTENCES, TAGS, X, Y, perceptron, same, tagger, values

from cntk_core.api import CheckpointError, NetworkError, OptionError, TrainingError, UsageError
from cntk_core.api.training import LearnerSettings, Model, Trainer


def learner():
    return LearnerSettings("adam", 0.02, mean=True)


def test_a_fit_makes_the_steps_of_the_trainer():
    by_hand, fitted = perceptron(), perceptron()
    trainer = Trainer(by_hand, "ce", learner(), padded=False)
    for _ in range(2):
        for first in range(0, 120, 50):
            trainer.train_minibatch({"x": X[first : first + 50], "y": Y[first : first + 50]})
        losses = trainer.read_totals()
        trainer.end_epoch()
    history = Estimator(fitted, learner=learner()).fit(X, Y, epochs=2, minibatch_size=50, shuffle=False)
    assert same(values(by_hand), values(fitted))
    assert history.training[1] == {name: one.average for name, one in losses.items()}
    assert (history.epochs, history.validation, history.stopped) == (2, [], "")


def test_rows_come_in_an_order_that_the_seed_says():
    networks = [perceptron() for _ in range(3)]
    for network, seed in zip(networks, (1, 1, 2), strict=True):
        Estimator(network, seed=seed).fit(X, Y, minibatch_size=16)
    one, same_seed, other = map(values, networks)
    assert same(one, same_seed)
    assert not same(one, other)


def test_each_row_is_learned_once_in_an_epoch_and_in_another_order_in_the_next():
    seen = []
    estimator = Estimator(perceptron())
    learn = estimator.trainer.train_minibatch
    estimator.trainer.train_minibatch = lambda data: (seen.append(data["x"][:, 0]), learn(data))[1]
    estimator.fit(X, Y, epochs=2, minibatch_size=50)
    first, second = np.concatenate(seen[:3]), np.concatenate(seen[3:])
    assert [len(each) for each in seen] == [50, 50, 20] * 2
    np.testing.assert_array_equal(np.sort(first), np.sort(X[:, 0]))
    np.testing.assert_array_equal(np.sort(second), np.sort(X[:, 0]))
    assert not np.array_equal(first, second)


def test_evaluate_weighs_all_samples_alike_whatever_the_minibatches():
    estimator = Estimator(perceptron())
    whole, parts = estimator.evaluate(X, Y), estimator.evaluate(X, Y, minibatch_size=50)
    scores = estimator.predict(X)
    logarithms = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert whole["ce"] == pytest.approx(-logarithms[np.arange(120), CLASSES].mean(), rel=1e-5)
    assert whole["errs"] == pytest.approx((scores.argmax(axis=1) != CLASSES).mean())
    assert parts == pytest.approx(whole)


def test_predict_goes_through_the_rows_in_their_order():
    estimator = Estimator(perceptron())
    whole = estimator.predict(X)
    np.testing.assert_allclose(estimator.predict(X, minibatch_size=7), whole, rtol=1e-5)
    np.testing.assert_array_equal(estimator.classify(X), whole.argmax(axis=1))
    several = estimator.predict(X[:5], ["z", "Times"])
    assert several["z"].shape == (5, 2)
    assert several["Times"].shape == (5, 8)


def test_sequences_are_rows():
    estimator = Estimator(tagger(), rate=0.05)
    history = estimator.fit(SENTENCES, TAGS, epochs=12, minibatch_size=4)
    assert history.loss[-1] < 0.5
    found = estimator.predict(SENTENCES, minibatch_size=5)
    assert [one.shape for one in found] == [(len(one), 3) for one in SENTENCES]
    right = np.concatenate(estimator.classify(SENTENCES)) == np.concatenate(TAGS)
    assert right.mean() > 0.9


def test_a_model_is_fitted_and_another_fit_goes_on():
    twice, once = perceptron(), perceptron()
    estimator = Estimator(Model(twice), learner=learner())
    estimator.fit(X, Y, shuffle=False)
    estimator.fit(X, Y, shuffle=False)
    Estimator(once, learner=learner()).fit(X, Y, epochs=2, shuffle=False)
    assert same(values(twice), values(once))


# -- validation and early stopping --------------------------------------------------------------------------------


def test_a_share_is_held_out():
    estimator = Estimator(perceptron(), seed=5)
    counts = []
    learn, test = estimator.trainer.train_minibatch, estimator.trainer.test_minibatch
    estimator.trainer.train_minibatch = lambda data: (counts.append(data["x"][:, 0]), learn(data))[1]
    held = []
    estimator.trainer.test_minibatch = lambda data: (held.append(data["x"][:, 0]), test(data))[1]
    history = estimator.fit(X, Y, validation=0.25)
    assert len(np.concatenate(counts)) == 90
    assert set(np.concatenate(counts)) | set(np.concatenate(held)) == set(X[:, 0])
    assert history.columns().keys() == {"epoch", "ce", "errs", "validation ce", "validation errs"}


def test_without_shuffling_the_last_rows_are_held_out():
    one, other = Estimator(perceptron()), Estimator(perceptron())
    first = one.fit(X, Y, validation=0.25, shuffle=False, epochs=2)
    second = other.fit(X[:90], Y[:90], validation=(X[90:], CLASSES[90:]), shuffle=False, epochs=2)
    assert first == second
    assert first.validation_loss == [other_one["ce"] for other_one in second.validation]


def test_early_stopping_gives_the_best_parameters_back():
    best = {}

    def remember(fitting):
        best[fitting.epoch] = values(fitting.network)

    estimator = Estimator(perceptron(), learner=LearnerSettings("sgd", 30.0, mean=True))
    history = estimator.fit(
        X, Y, epochs=50, validation=0.3, early_stopping=EarlyStopping(patience=3), callbacks=[remember]
    )
    assert history.stopped == f"no improvement for 3 epochs since epoch {history.best_epoch}"
    assert history.epochs == history.best_epoch + 3
    assert history.validation_loss[history.best_epoch - 1] == min(history.validation_loss)
    assert same(values(estimator.network), best[history.best_epoch])


def test_the_last_parameters_stay_if_the_best_are_not_wanted():
    last = {}
    estimator = Estimator(perceptron(), learner=LearnerSettings("sgd", 30.0, mean=True))
    estimator.fit(
        X,
        Y,
        epochs=50,
        early_stopping=EarlyStopping(2, restore_best=False),
        callbacks=[lambda fitting: last.update(values(fitting.network))],
    )
    assert same(values(estimator.network), last)


@pytest.mark.parametrize(
    ("settings", "losses", "best", "waited"),
    [
        ({}, [3.0, 2.0, 2.0, 2.5], 2, 2),
        ({"min_delta": 0.5}, [3.0, 2.6, 2.4, 2.0], 3, 1),
        ({"mode": "max"}, [3.0, 2.0, 4.0], 3, 0),
        ({}, [math.nan, 2.0, math.nan], 2, 1),
        ({}, [2.0, math.nan], 1, 1),
    ],
)
def test_what_is_an_improvement(settings, losses, best, waited):
    watch = Watch(EarlyStopping(**settings))
    for epoch, loss in enumerate(losses, 1):
        watch.look(epoch, {"ce": loss}, {})
    assert (watch.best_epoch, watch.waited) == (best, waited)


def test_patience_and_what_is_watched():
    watch = Watch(EarlyStopping(patience=1, monitor="errs"))
    assert watch.look(1, {"ce": 1.0, "errs": 0.5}, {"ce": 1.0, "errs": 0.7})
    assert watch.best == 0.7
    assert not watch.ends
    assert not watch.look(2, {"ce": 0.5, "errs": 0.4}, {"ce": 0.1, "errs": 0.8})
    assert watch.ends == "no improvement for 1 epoch since epoch 1"
    with pytest.raises(OptionError) as caught:
        Watch(EarlyStopping(monitor="err")).look(1, {"ce": 1.0, "errs": 0.5}, {})
    assert str(caught.value) == (
        "early stopping looks at 'err', which is not computed; did you mean 'errs'?\n    There are ce, errs."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patience": 0}, "patience of early stopping is 0; it must be at least 1"),
        ({"min_delta": -1.0}, "min_delta of early stopping is -1; it must not be negative"),
        ({"mode": "best"}, "mode of early stopping is min or max, not 'best'"),
    ],
)
def test_early_stopping_that_makes_no_sense(settings, message):
    with pytest.raises(OptionError) as caught:
        EarlyStopping(**settings)
    assert str(caught.value) == message


# -- callbacks and progress ---------------------------------------------------------------------------------------


class Diary(Callback):
    def __init__(self):
        self.entries = []

    def fit_begins(self, fitting):
        self.entries.append("fit")

    def epoch_begins(self, fitting):
        self.entries.append(f"epoch {fitting.epoch} of {fitting.epochs}")

    def minibatch_ends(self, fitting, result):
        self.entries.append(f"minibatch {fitting.minibatch}: {result.samples}")

    def epoch_ends(self, fitting):
        assert fitting.training.keys() == {"ce", "errs"}
        self.entries.append("epoch ends" + (" validated" if fitting.validation else ""))

    def fit_ends(self, fitting):
        self.entries.append("fit ends")


def test_callbacks_are_told():
    diary = Diary()
    Estimator(perceptron()).fit(X, Y, epochs=2, minibatch_size=70, callbacks=[diary], validation=(X, Y))
    epoch = ["minibatch 1: 70", "minibatch 2: 50", "epoch ends validated"]
    assert diary.entries == ["fit", "epoch 1 of 2", *epoch, "epoch 2 of 2", *epoch, "fit ends"]


def test_a_callback_ends_training():
    history = Estimator(perceptron()).fit(X, Y, epochs=9, callbacks=[lambda fitting: fitting.stop("enough")])
    assert (history.epochs, history.stopped) == (1, "enough")


def test_a_bar_is_shown_where_it_is_asked_for(capsys):
    estimator = Estimator(perceptron())
    estimator.fit(X, Y)
    assert capsys.readouterr() == ("", "")
    estimator.fit(X, Y, epochs=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "epoch 2/2 ce = " in shown.err


def test_a_bar_in_a_notebook_needs_no_widgets(monkeypatch):
    pages = []
    handle = SimpleNamespace(update=lambda page: pages.append(page.data))
    monkeypatch.setattr("IPython.display.display", lambda page, display_id: handle)
    bar = NotebookBar(clock=iter([10.0, 10.1, 10.3, 10.3]).__next__)
    bar.begin("epoch 1/2 a < b", 4, 0)
    bar.advance(1)
    bar.advance(2)
    assert pages == [
        '<div>epoch 1/2 a &lt; b <progress max="4" value="0"></progress> 0/4</div>',
        '<div>epoch 1/2 a &lt; b <progress max="4" value="2"></progress> 2/4</div>',
    ]
    bar.close()
    assert pages[-1] == ""


def test_a_notebook_has_its_own_bar(monkeypatch):
    pages = []
    handle = SimpleNamespace(update=lambda page: pages.append(page.data))
    monkeypatch.setattr("IPython.display.display", lambda page, display_id: handle)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    Estimator(perceptron()).fit(X, Y, epochs=2)
    assert pages[0] == '<div>epoch 1/2 <progress max="4" value="0"></progress> 0/4</div>'
    assert any(page.startswith("<div>epoch 2/2 ce = ") for page in pages)
    assert pages[-1] == ""


# -- going on -----------------------------------------------------------------------------------------------------


class Interrupt(Callback):
    def __init__(self, after, error):
        self.left, self.error = after, error

    def minibatch_ends(self, fitting, result):
        self.left -= 1
        if not self.left:
            raise self.error


def fitted(folder, *callbacks, **given):
    estimator = Estimator(
        perceptron(dropout=True), learner=LearnerSettings("adam", 0.3, mean=True), op_settings={"dropoutRate": 0.3}
    )
    history = estimator.fit(
        X,
        CLASSES,
        epochs=12,
        minibatch_size=20,
        validation=0.2,
        class_weight="balanced",
        early_stopping=EarlyStopping(2),
        checkpoint=folder,
        checkpoint_every=2,
        callbacks=callbacks,
        **given,
    )
    return history, values(estimator.network)


@pytest.mark.parametrize(("error", "after"), [(KeyboardInterrupt, (7, 5)), (RuntimeError, (1, 10, 9))])
def test_an_interrupted_fit_ends_in_the_same_bytes(tmp_path, error, after):
    history, expected = fitted(tmp_path / "whole")
    assert history.stopped
    for count in after:
        with pytest.raises(error):
            fitted(tmp_path / "cut", Interrupt(count, error))
    again, found = fitted(tmp_path / "cut")
    assert again == history
    assert same(found, expected)
    assert [path.name for path in (tmp_path / "cut").glob("best-*")] == [f"best-{history.best_epoch}.dnn"]


def test_a_fit_that_is_over_is_not_learned_again(tmp_path):
    history, expected = fitted(tmp_path)
    again, found = fitted(tmp_path, Interrupt(1, AssertionError))
    assert again == history
    assert same(found, expected)


def test_a_fit_begins_anew_if_it_is_asked_to(tmp_path):
    history, expected = fitted(tmp_path)
    diary = Diary()
    again, found = fitted(tmp_path, diary, resume=False)
    assert len([entry for entry in diary.entries if entry.startswith("epoch ends")]) == history.epochs
    assert again == history
    assert same(found, expected)


def test_the_checkpoint_of_another_fit(tmp_path):
    Estimator(perceptron()).fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(CheckpointError) as caught:
        Estimator(perceptron()).fit(X[:100], Y[:100], minibatch_size=16, checkpoint=tmp_path)
    assert str(caught.value) == (
        f"the checkpoint in '{tmp_path}' is of another fit: minibatch_size was 32, now it is 16, "
        "rows was 120, now it is 100\n"
        "    Give what was given then, another folder, or resume=False to begin anew."
    )


def test_the_best_model_is_damaged(tmp_path):
    fitted(tmp_path)
    (best,) = tmp_path.glob("best-*")
    best.write_bytes(b"CNTK")
    with pytest.raises(CheckpointError) as caught:
        fitted(tmp_path)
    assert str(caught.value).startswith("the parameters of the best epoch cannot be read: ")
    assert caught.value.hint == "Bring the file back, or give resume=False to begin anew."


# -- mistakes -----------------------------------------------------------------------------------------------------


def test_a_criterion_that_is_not_a_number():
    with pytest.raises(TrainingError) as caught:
        Estimator(perceptron(), learner=LearnerSettings("sgd", 1e38, mean=True)).fit(X, Y, minibatch_size=8)
    assert str(caught.value) == (
        "the criterion 'ce' of epoch 1 is inf\n"
        "    Give a lower rate, limit gradients (LearnerSettings(..., clip=1.0)), or look at the data."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it has to be a whole number from 1 on"),
        ({"minibatch_size": 2.5}, "minibatch_size is 2.5; it has to be a whole number from 1 on"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1; it has to be a whole number from 0 on"),
        ({"validation": 1.0}, "validation is 1 of 120 rows; something has to be left on both sides"),
    ],
)
def test_arguments_that_make_no_sense(given, message):
    with pytest.raises(UsageError) as caught:
        Estimator(perceptron()).fit(X, Y, **given)
    assert str(caught.value) == message


def test_what_is_no_network():
    with pytest.raises(NetworkError) as caught:
        Estimator([1, 2])
    assert str(caught.value) == (
        "list is no network\n    Give a network, such as graph.finish() returns, a Model, or a Function of import cntk."
    )


def test_a_history_goes_through_json():
    history = History([{"ce": 1.0}], [{"ce": 2.0}], 1, "enough")
    assert History.of(history.entries()) == history
    assert (history.loss, history.validation_loss) == ([1.0], [2.0])
