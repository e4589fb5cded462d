"""A training from its first line to its last, against a loop written out with NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from small import FRAMES, TABLE, Lines, ListReader, make_data, make_network, make_session

from cntk_core.contract.reader import SWEEP
from cntk_core.errors import CntkError
from cntk_core.network.model_file import load_model, read_model_info


def values(path) -> dict[str, np.ndarray]:
    return {parameter.name: parameter.value for parameter in load_model(path, TABLE.find).parameters}


def by_hand(epochs: int, *, size: int = 8, rate: float = 0.0625, momentum_per_mb: float = 0.5) -> dict[str, np.ndarray]:
    """Train the small network by the formulas of the training page."""
    data = make_data()
    w = {parameter.name: parameter.value.copy() for parameter in make_network().parameters}
    smoothed = {name: np.zeros_like(value) for name, value in w.items()}
    for _ in range(epochs):
        for at in range(0, FRAMES, size):
            x, y = data["features"][at : at + size], data["labels"][at : at + size]
            h = 1 / (1 + np.exp(-(x @ w["W0"] + w["b0"])))
            z = h @ w["W1"] + w["b1"]
            p = np.exp(z - z.max(1, keepdims=True))
            d = p / p.sum(1, keepdims=True) - y
            dh = d @ w["W1"].T * h * (1 - h)
            g = {"W1": h.T @ d, "b1": d.sum(0, keepdims=True), "W0": x.T @ dh, "b0": dh.sum(0, keepdims=True)}
            momentum = momentum_per_mb ** (len(x) / size)
            for name in w:
                smoothed[name] = momentum * smoothed[name] + (1 - momentum) * rate * g[name]
                w[name] -= smoothed[name]
    return w


def test_training_follows_the_formulas(tmp_path):
    summary = make_session(tmp_path, max_epochs=3).run()
    expected = by_hand(3)
    for name, value in values(tmp_path / "net.dnn").items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-10, atol=1e-13)
    assert (summary.epochs, summary.trained, summary.stopped) == (3, 3, "")
    assert set(summary.criteria) == {"ce", "errs"}


@pytest.mark.parametrize("changes", [{"num_subminibatches": 3}, {"max_samples_in_ram": 3}])
def test_parts_of_a_minibatch_give_the_same_model(tmp_path, changes):
    make_session(tmp_path, **changes).run()
    for name, value in values(tmp_path / "net.dnn").items():
        np.testing.assert_allclose(value, by_hand(3)[name], rtol=1e-10, atol=1e-13)


def test_the_log_of_a_short_training(tmp_path):
    lines = Lines()
    make_session(tmp_path, lines, max_epochs=2).run()
    text = "\n".join(lines.all).replace(str(tmp_path), "DIR")
    text = re.sub(r"time = \S+s; samplesPerSecond = \S+", "time = T", text)
    text = re.sub(r"epochTime=\S+s", "epochTime=T", text)
    text = re.sub(r"(ce|errs) = [\d.]+", r"\1 = V", text)
    assert (
        text
        == """
Model has 13 nodes. Using CPU.

Training criterion:   ce = CrossEntropyWithSoftmax
Evaluation criterion: errs = ClassificationError

Training 43 parameters in 4 out of 4 parameter tensors and 10 nodes with gradient:

\tNode 'W0' (LearnableParameter operation) : [5 x 4]
\tNode 'W1' (LearnableParameter operation) : [3 x 5]
\tNode 'b0' (LearnableParameter operation) : [5 x 1]
\tNode 'b1' (LearnableParameter operation) : [3 x 1]

No PreCompute nodes found, or all already computed. Skipping pre-computation step.

Starting Epoch 1: learning rate per sample = 0.062500  effective momentum = 0.500000  \
momentum as time constant = 11.5 samples

Starting minibatch loop.
 Epoch[ 1 of 2]-Minibatch[   1-   2]: ce = V * 16; errs = V% * 16; time = T
 Epoch[ 1 of 2]-Minibatch[   3-   4]: ce = V * 16; errs = V% * 16; time = T
 Epoch[ 1 of 2]-Minibatch[   5-   6]: ce = V * 11; errs = V% * 11; time = T
Finished Epoch[ 1 of 2]: [Training] ce = V * 43; errs = V% * 43; totalSamplesSeen = 43; \
learningRatePerSample = 0.0625; epochTime=T
SGD: Saving checkpoint model 'DIR/net.dnn.1'

Starting Epoch 2: learning rate per sample = 0.062500  effective momentum = 0.500000  \
momentum as time constant = 11.5 samples

Starting minibatch loop.
 Epoch[ 2 of 2]-Minibatch[   1-   2, 37.21%]: ce = V * 16; errs = V% * 16; time = T
 Epoch[ 2 of 2]-Minibatch[   3-   4, 74.42%]: ce = V * 16; errs = V% * 16; time = T
 Epoch[ 2 of 2]-Minibatch[   5-   6, 100.00%]: ce = V * 11; errs = V% * 11; time = T
Finished Epoch[ 2 of 2]: [Training] ce = V * 43; errs = V% * 43; totalSamplesSeen = 86; \
learningRatePerSample = 0.0625; epochTime=T
SGD: Saving checkpoint model 'DIR/net.dnn'"""
    )


def test_at_trace_level_0_the_log_is_short(tmp_path):
    lines = Lines()
    make_session(tmp_path, lines, max_epochs=1, trace_level=0).run()
    assert "Training 43 parameters in 4 parameter tensors." in lines.all
    assert not lines.with_text("Minibatch[")
    assert not lines.with_text("Saving")
    assert len(lines.with_text("Finished Epoch")) == 1


def test_the_first_minibatches_are_shown_one_by_one(tmp_path):
    lines = Lines()
    make_session(tmp_path, lines, max_epochs=1, first_mbs_to_show_result=3).run()
    shown = [line.split("Minibatch[")[1].split("]")[0] for line in lines.with_text("-Minibatch[")]
    assert shown == ["   1-   1", "   2-   2", "   3-   3", "   4-   4", "   5-   6"]


def test_lines_between_epochs_add_up_to_the_epoch(tmp_path):
    lines = Lines()
    summary = make_session(tmp_path, lines, max_epochs=1).run()
    parts = [re.search(r"ce = ([\d.]+) \* (\d+)", line) for line in lines.with_text("-Minibatch[")]
    total = sum(float(part[1]) * int(part[2]) for part in parts if part)
    assert total / FRAMES == pytest.approx(summary.criteria["ce"], abs=1e-7)


@pytest.mark.parametrize(("epoch_size", "counts"), [(24, [24, 24, 24]), (100, [100, 100, 100]), (SWEEP, [43, 43, 43])])
def test_epoch_sizes_need_not_be_those_of_the_data(tmp_path, epoch_size, counts):
    lines = Lines()
    make_session(tmp_path, lines, epoch_size=epoch_size).run()
    seen = [int(re.search(r"ce = \S+ \* (\d+)", line)[1]) for line in lines.with_text("[Training]")]
    assert seen == counts


def test_validation_follows_each_epoch(tmp_path):
    lines = Lines()
    summary = make_session(tmp_path, lines, max_epochs=2, cv_reader=ListReader(make_data(20, 5))).run()
    kinds = [line.split(" = ")[0].split("]: ")[-1] for line in lines.all if "Final" in line or "[Validate]" in line]
    assert kinds == ["ce", "[Validate] ce"] * 2
    final = lines.with_text("Final Results: Minibatch[1-3]: ce = ")
    assert len(final) == 2
    assert "; perplexity = " in final[0]
    assert set(summary.validation) == {"ce", "errs"}
    assert not any("perplexity" in line for line in lines.with_text("[Validate]"))


def test_models_and_checkpoints_are_named_as_ever(tmp_path):
    make_session(tmp_path, max_epochs=4).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.dnn", "net.dnn.0", "net.dnn.1", "net.dnn.2", "net.dnn.3", "net.dnn.checkpoints", "net.dnn.ckp",
    ]  # fmt: skip
    assert read_model_info(tmp_path / "net.dnn.3").epochs == 3
    assert read_model_info(tmp_path / "net.dnn").samples == 4 * FRAMES


def test_checkpoints_are_kept_if_asked_for(tmp_path):
    make_session(tmp_path, max_epochs=3, keep_check_point_files=True).run()
    assert sorted(path.name for path in tmp_path.glob("*.ckp")) == ["net.dnn.1.ckp", "net.dnn.2.ckp", "net.dnn.ckp"]


def test_precomputed_values_are_computed_once_and_saved(tmp_path):
    lines = Lines()
    data = make_data()
    make_session(tmp_path, lines, max_epochs=1, network=lambda: make_network(normalized=True)).run()
    at = lines.all.index("Precomputing --> 2 PreCompute nodes found.")
    assert lines.all[at + 1 : at + 6] == [
        "",
        "\tmean = Mean()",
        "\tinvStdDev = InvStdDev()",
        "",
        "Precomputing --> Completed.",
    ]
    initial = load_model(tmp_path / "net.dnn.0", TABLE.find)
    np.testing.assert_allclose(initial["mean"].value, data["features"].mean(0), rtol=3e-7)
    np.testing.assert_allclose(initial["invStdDev"].value, 1 / data["features"].std(0), rtol=3e-7)
    again = Lines()
    (tmp_path / "net.dnn").unlink()
    make_session(tmp_path, again, max_epochs=1).run()
    assert not again.with_text("Precomputing")


def test_a_rate_below_the_least_ends_training_with_a_final_model(tmp_path):
    from cntk_core.config import Schedule

    lines = Lines()
    rates = Schedule.of([0.5, 1e-12])
    summary = make_session(tmp_path, lines, learning_rates_per_sample=rates).run()
    text = "Learn Rate Per Sample for Epoch[2] = 1e-12 is less than minLearningRatePerSample 1e-09."
    assert f"{text} Training complete." in lines.all
    assert (summary.epochs, summary.trained, summary.stopped) == (1, 1, text)
    assert read_model_info(tmp_path / "net.dnn").epochs == 1


def test_noise_is_the_same_in_every_run(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_session(tmp_path / name, gaussian_noise_inject_std=0.01, seed=seed).run()
    files = [(tmp_path / name / "net.dnn").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]
    assert not any("noise" in name for name in values(tmp_path / "a" / "net.dnn"))


class Listeners:
    """Keeps what it was told; ends training when asked to."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.heard: list[tuple[str, object]] = []
        self.stop_after = stop_after

    def listeners(self, name):
        def listen(**told):
            record = told.get("result") or told.get("summary") or told.get("outcome") or told.get("epoch") or told
            self.heard.append((name, record))
            if name == "cntk_should_stop" and record.epoch + 1 == self.stop_after:
                return "it is good enough"
            return None

        return [listen]

    def records(self, name):
        return [record for heard, record in self.heard if heard == name]


def test_listeners_hear_of_everything(tmp_path):
    hooks = Listeners()
    make_session(tmp_path, max_epochs=2, hooks=hooks).run()
    often = ("cntk_minibatch_end", "cntk_before_update")
    names = [name for name, _ in hooks.heard if name not in often]
    epoch = ["cntk_learning_rate", "cntk_epoch_begin", "cntk_epoch_end", "cntk_should_stop", "cntk_checkpoint_saved"]
    assert names == ["cntk_job_begin", "cntk_plan_ready", *epoch, *epoch, "cntk_job_end"]
    results = hooks.records("cntk_minibatch_end")
    assert [result.samples for result in results] == [8, 8, 8, 8, 8, 3] * 2
    assert [bool(result.criteria) for result in results[:4]] == [False, True, False, True]
    outcome = hooks.records("cntk_job_end")[0]
    assert (outcome.succeeded, outcome.epochs, outcome.error) == (True, 2, None)


def test_a_listener_may_end_training(tmp_path):
    lines = Lines()
    summary = make_session(tmp_path, lines, max_epochs=9, hooks=Listeners(stop_after=2)).run()
    assert "Training ends after epoch 2: it is good enough" in lines.all
    assert (summary.epochs, summary.trained, summary.stopped) == (2, 2, "it is good enough")
    assert read_model_info(tmp_path / "net.dnn").epochs == 2
    assert not (tmp_path / "net.dnn.2").exists()


def test_the_end_is_told_after_a_failure_too(tmp_path):
    hooks = Listeners()
    with pytest.raises(CntkError):
        make_session(tmp_path, hooks=hooks, reader=ListReader(make_data(0))).run()
    outcome = hooks.records("cntk_job_end")[0]
    assert not outcome.succeeded
    assert str(outcome.error) == "there is no data to train on: the reader gave no minibatch in epoch 1"


def test_a_criterion_that_is_not_a_number_stops_training(tmp_path):
    data = make_data()
    data["features"][20] = np.nan
    with pytest.raises(CntkError) as caught:
        make_session(tmp_path, reader=ListReader(data)).run()
    assert str(caught.value) == (
        "The training criterion is not a number (NAN).\n"
        "    The data of 'features' have values that are not numbers, in minibatch 3 of epoch 1.\n"
        "    It happened in epoch 1, minibatches 3 to 4.\n"
        "    A lower learning rate or clippingThresholdPerSample may help."
    )
    assert not (tmp_path / "net.dnn.1").exists()


def test_it_is_noticed_without_log_lines_too(tmp_path):
    data = make_data()
    data["features"][:] = np.nan
    with pytest.raises(CntkError, match="not a number"):
        make_session(tmp_path, reader=ListReader(data), num_mbs_to_show_result=0, max_epochs=1).run()


def test_a_network_without_criterion_is_refused(tmp_path):
    network = make_network()
    network.roots["criterion"].clear()
    with pytest.raises(CntkError) as caught:
        make_session(tmp_path, network=network).run()
    assert str(caught.value) == (
        "the network has no training criterion\n    Put a node into CriterionNodes, or give trainCriterionNodeName."
    )


def test_a_criterion_can_be_named(tmp_path):
    with pytest.raises(CntkError) as caught:
        make_session(tmp_path, train_criterion_node_name="cee").run()
    assert str(caught.value) == "the network has no node 'cee'; did you mean 'ce'?"
    lines = Lines()
    make_session(tmp_path, lines, train_criterion_node_name="CE", eval_criterion_node_name="ce", max_epochs=1).run()
    assert not lines.with_text("Evaluation criteri")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    import cntk_kit_recipes.session.saving as module

    def full(*given, **more):
        raise OSError(28, "No space left on device")

    session = make_session(tmp_path)
    monkeypatch.setattr(module, "save_checkpoint", full)
    with pytest.raises(CntkError) as caught:
        session.run()
    assert str(caught.value) == (
        f"the model '{tmp_path}/net.dnn.1' cannot be saved: No space left on device\n"
        "    Make room on the disk, or see to the rights of the folder, and run again: the models and checkpoints "
        "of before are untouched, and training goes on from them."
    )


def test_dropout_is_on_in_training_only_and_repeats(tmp_path):
    def network():
        return make_network(dropout=True)

    for name in "ab":
        make_session(tmp_path / name, network=network, dropout_rate=0.5, cv_reader=ListReader()).run()
    plain = make_session(tmp_path / "c", network=network, dropout_rate=0.0)
    plain.run()
    files = [(tmp_path / name / "net.dnn").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_a_learning_rate_multiplier_of_zero_freezes_a_parameter(tmp_path):
    def network():
        made = make_network()
        made["b0"].learning_rate_multiplier = 0.0
        return made

    lines = Lines()
    make_session(tmp_path, lines, network=network).run()
    assert lines.with_text("Training 38 parameters in 3 out of 4 parameter tensors and 9 nodes with gradient:")
    np.testing.assert_array_equal(values(tmp_path / "net.dnn")["b0"], make_network()["b0"].value)
