"""Hooks in whole runs: gradients, minibatches, rates, evaluations, failures, keys, networks in a chain."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from pathlib import Path

import attrs
import numpy as np
import pytest

from cntk_core.errors import BrokenPluginError, CntkError
from cntk_core.network.model_file import load_model
from cntk_core.ops.table import core_ops
from cntk_core.plugins.markers import hookimpl
from cntk_core.records.minibatch import StreamData
from cntk_core.training.loop.step import Stepper
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.changed_data import with_changes
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks


def run(*arguments: str, listeners=(), communicator=None) -> None:
    with closing(Log(quiet=True)) as log:
        run_recipe(["configFile=r.cntk", *arguments], log, listeners=listeners, communicator=communicator)


def weights(path: str = "run/net.dnn") -> np.ndarray:
    return np.array(load_model(Path(path), core_ops().find)["W"].value)


class Recorder:
    """Hears of one hook."""

    def __init__(self) -> None:
        self.seen: list[dict[str, object]] = []


def recorder(hook: str, *wanted: str, answer=None) -> Recorder:
    """A listener of a hook that keeps these arguments."""
    names = ", ".join(wanted)
    scope: dict[str, object] = {"hookimpl": hookimpl, "answer": answer or (lambda **told: None), "Recorder": Recorder}
    text = (
        f"class One(Recorder):\n    @hookimpl\n    def {hook}(self, {names}):\n"
        f"        told = dict({', '.join(f'{name}={name}' for name in wanted)})\n"
        "        self.seen.append(told)\n        return answer(**told)\n"
    )
    exec(text, scope)
    return scope["One"]()  # type: ignore[operator]


class TestGradients:
    def test_they_are_what_the_update_takes(self, recipe):
        heard = recorder("cntk_before_update", "step", "gradients", answer=lambda step, gradients: {
            "W": gradients["W"].copy()
        })  # fmt: skip
        kept = []

        class Keeping:
            @hookimpl
            def cntk_before_update(self, step, gradients):
                kept.append({name: gradient.copy() for name, gradient in gradients.items()})

        plainly = "Train=[SGD=[momentumPerMB=0]]"
        run(plainly)
        plain = weights()
        run(plainly, "modelPath=run/heard.dnn", listeners=[heard, Keeping()])
        np.testing.assert_array_equal(weights("run/heard.dnn"), plain)
        steps = [told["step"] for told in heard.seen]
        assert [(step.epoch, step.minibatch, step.samples, step.step) for step in steps] == [
            *((0, 0, 2, 0), (0, 1, 2, 1)),
            *((1, 0, 2, 2), (1, 1, 2, 3)),
        ]
        assert {step.learning_rate for step in steps} == {0.1}
        assert [sorted(gradients) for gradients in kept] == [["W"]] * 4
        np.testing.assert_allclose(0.5 - 0.1 * sum(one["W"] for one in kept), plain)

    def test_replaced_and_changed_in_place_in_a_chain(self, recipe):
        def twice(step, gradients):
            return {"W": 2 * gradients["W"]}

        def halved(step, gradients):
            gradients["W"] *= 0.5

        run()
        run("modelPath=run/twice.dnn", listeners=[recorder("cntk_before_update", "step", "gradients", answer=twice)])
        both = [recorder("cntk_before_update", "step", "gradients", answer=how) for how in (twice, halved)]
        run("modelPath=run/both.dnn", listeners=both)
        np.testing.assert_allclose(weights("run/both.dnn"), weights())
        assert not np.allclose(weights("run/twice.dnn"), weights())

    def test_before_norms_are_limited(self, recipe):
        none = recorder("cntk_before_update", "step", "gradients", answer=lambda step, gradients: {
            "W": 1e6 * gradients["W"]
        })  # fmt: skip
        limit = "Train=[SGD=[maxEpochs=1;clippingThresholdPerSample=0.01;gradientClippingWithTruncation=false]]"
        run(limit, listeners=[none])
        assert np.abs(weights() - 0.5).max() < 0.01

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (lambda step, gradients: {"V": gradients["W"]}, "it answered a gradient of 'V', which is no .*"),
            (lambda step, gradients: {"W": np.zeros(3)}, r"its gradient of 'W' has the shape \(3,\), not \(2, 2\)"),
            (lambda step, gradients: 3, "it answered 3, not gradients by name"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_used(self, recipe, answer, reason):
        with pytest.raises(ValueError, match=f"^{reason}$"):
            run(listeners=[recorder("cntk_before_update", "step", "gradients", answer=answer)])

    def test_ranks_get_the_sums_of_all(self, recipe):
        seen: dict[int, list[np.ndarray]] = {0: [], 1: []}

        def work(communicator):
            def keep(step, gradients):
                seen[communicator.rank].append((step.samples, gradients["W"].copy()))

            parallel = "Train=[SGD=[maxEpochs=1;parallelTrain=[parallelizationMethod=DataParallelSGD]]]"
            listener = recorder("cntk_before_update", "step", "gradients", answer=keep)
            run(parallel, listeners=[listener], communicator=communicator)

        VirtualRanks(2, deadline=60.0).run(work)
        assert len(seen[0]) == 2
        for (samples, one), (others, other) in zip(seen[0], seen[1], strict=True):
            assert samples == others == 2
            np.testing.assert_array_equal(one, other)

    def test_it_costs_nothing_when_nobody_listens(self, recipe, monkeypatch):
        called: list[str] = []
        for name in ("gradients", "update"):
            monkeypatch.setattr(Stepper, name, lambda self, *given, name=name: called.append(name))
        run()
        assert called == []
        run("modelPath=run/b.dnn", listeners=[recorder("cntk_before_update", "step")])
        assert called == ["gradients", "update"] * 4


class TestMinibatches:
    def test_they_are_changed_in_training_and_evaluation(self, recipe):
        def shifted(source, minibatch):
            data = {
                name: StreamData(stream.data + (name == "features"), stream.layout)
                for name, stream in minibatch.streams.items()
            }
            return attrs.evolve(minibatch, streams=data)

        first = recorder("cntk_minibatch_read", "source", "minibatch", answer=shifted)
        second = recorder("cntk_minibatch_read", "source", "minibatch", answer=shifted)
        run("command=Train:Test:Write", listeners=[first, second])
        found = [(one.command, one.key, one.epoch, one.minibatch) for one in (told["source"] for told in first.seen)]
        assert found == [
            *(("Train", "reader", epoch, minibatch) for epoch in (0, 1) for minibatch in (0, 1)),
            *(("Test", "reader", 0, 0), ("Write", "reader", 0, 0)),
        ]  # fmt: skip
        moved = weights()
        text = re.sub(
            r"features (\d) (\d)", lambda m: f"features {int(m[1]) + 2} {int(m[2]) + 2}", Path("train.ctf").read_text()
        )
        Path("train.ctf").write_text(text, encoding="utf-8")
        run("modelPath=run/moved.dnn")
        np.testing.assert_array_equal(weights("run/moved.dnn"), moved)

    def test_what_cannot_be_used(self, recipe):
        Path("p.py").write_text(
            "import attrs\nfrom cntk_core.api import *\n@hookimpl\ndef cntk_minibatch_read(minibatch):\n"
            "    streams = {k: StreamData(s.data[:, :1], s.layout) for k, s in minibatch.streams.items()}\n"
            "    return attrs.evolve(minibatch, streams=streams)\n",
            encoding="utf-8",
        )
        with pytest.raises(BrokenPluginError) as caught, closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk"], log, plugin_files=["p.py"])
        assert re.match(
            r"hook cntk_minibatch_read of p\.py failed: WrongAnswer: "
            r"its stream '\w+' has the shape \(2, 1\), not \(2, 2\)\n    it is at .*/p\.py:3\n",
            str(caught.value),
        )

    def test_the_reader_itself_when_nobody_listens(self):
        reader = object()
        assert with_changes(reader, (), None) is reader  # type: ignore[arg-type]

    def test_a_run_that_goes_on_ends_in_the_same_model(self, recipe):
        def noisy(source, minibatch):
            random = np.random.default_rng([source.epoch, source.minibatch])
            stream = minibatch.streams["features"]
            noise = StreamData(stream.data + random.normal(size=stream.data.shape), stream.layout)
            return attrs.evolve(minibatch, streams={**minibatch.streams, "features": noise})

        def listener():
            return recorder("cntk_minibatch_read", "source", "minibatch", answer=noisy)

        class Stopping:
            @hookimpl
            def cntk_minibatch_end(self, result):
                if (result.epoch, result.minibatch) == (1, 0):
                    os.kill(os.getpid(), signal.SIGTERM)

        run(listeners=[listener()])
        whole = weights()
        with pytest.raises(CntkError):
            run("modelPath=run/b.dnn", listeners=[listener(), Stopping()])
        again = listener()
        run("modelPath=run/b.dnn", listeners=[again])
        np.testing.assert_array_equal(weights("run/b.dnn"), whole)
        assert [(told["source"].epoch, told["source"].minibatch) for told in again.seen] == [(1, 1)]


class TestRates:
    @staticmethod
    def halving(job, epoch, rate):
        return rate / 2 if epoch else None

    def test_an_epoch_is_learned_with_what_is_answered(self, recipe):
        run("Train=[SGD=[learningRatesPerSample=0.1:0.05]]")
        told = recorder("cntk_epoch_begin", "epoch")
        asked = recorder("cntk_learning_rate", "job", "epoch", "rate", answer=self.halving)
        run("modelPath=run/b.dnn", listeners=[asked, told])
        np.testing.assert_array_equal(weights("run/b.dnn"), weights())
        assert [(one["epoch"], one["rate"]) for one in asked.seen] == [(0, 0.1), (1, 0.1)]
        assert [one["epoch"].learning_rate for one in told.seen] == [0.1, 0.05]

    def test_the_log_says_so(self, recipe, capsys):
        Path("p.py").write_text(
            "from cntk_core.api import hookimpl\n@hookimpl\n"
            "def cntk_learning_rate(epoch, rate): return rate / 2 if epoch else None\n",
            encoding="utf-8",
        )
        assert main(["configFile=r.cntk", "--plugin", "p.py"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert "learnRatePerSample of epoch 2 is 0.05, as a plugin says, in place of 0.1" in lines
        (last,) = [line for line in lines if "Finished Epoch[ 2 of 2]" in line]
        assert "learningRatePerSample = 0.05" in last


class TestEvaluations:
    def test_minibatches_and_the_end(self, recipe):
        each = recorder("cntk_evaluation_minibatch_end", "job", "result")
        end = recorder("cntk_evaluation_end", "job", "result")
        run("command=Train:Test", "Test=[minibatchSize=3]", listeners=[each, end])
        assert [(told["job"].name, told["job"].action, told["job"].engine) for told in each.seen] == [
            ("Test", "test", "cpu")
        ] * 2
        first, second = (told["result"] for told in each.seen)
        assert [(one.minibatch, one.samples, one.samples_in_epoch) for one in (first, second)] == [(0, 3, 3), (1, 1, 4)]
        (told,) = end.seen
        result = told["result"]
        assert (result.samples, result.minibatches, result.model, result.epoch) == (4, 2, "run/net.dnn", None)
        assert list(result.criteria) == ["errs", "ce"]
        for name, value in result.criteria.items():
            assert value == pytest.approx((3 * first.criteria[name] + second.criteria[name]) / 4)

    def test_each_model_of_cv(self, recipe):
        end = recorder("cntk_evaluation_end", "job", "result")
        cv = (
            "Cv=[action=cv;crossValidationInterval=1:1:2;"
            + recipe.read_text(encoding="utf-8")
            .partition("Test = [")[2]
            .partition("action = test")[2]
            .partition("\n]\n")[0]
            .replace("\n", ";")
            + "]"
        )
        run("command=Train:Cv", "Train=[SGD=[keepCheckPointFiles=true]]", cv, listeners=[end])
        assert [told["result"].model for told in end.seen] == ["run/net.dnn.1", "run/net.dnn"]
        assert {told["job"].action for told in end.seen} == {"cv"}

    def test_the_validation_set(self, recipe):
        end = recorder("cntk_evaluation_end", "job", "result")
        text = recipe.read_text(encoding="utf-8")
        reader = text[text.index("    reader = [") : text.index("]\nTest")]
        recipe.write_text(
            text.replace(reader, reader + reader.replace("reader = [", "cvReader = [", 1)), encoding="utf-8"
        )
        epochs = recorder("cntk_epoch_end", "summary")
        run(listeners=[end, epochs])
        assert [told["result"].epoch for told in end.seen] == [0, 1]
        assert [told["result"].criteria for told in end.seen] == [told["summary"].validation for told in epochs.seen]


class TestFailures:
    def test_a_training_that_fails(self, recipe):
        failed = recorder("cntk_exception", "job", "error")
        ended = recorder("cntk_job_end", "job", "outcome")
        Path("train.ctf").write_text("|features 1 nan |labels 1 0\n", encoding="utf-8")
        with pytest.raises(CntkError) as caught:
            run(listeners=[failed, ended])
        (told,) = failed.seen
        assert told["error"] is caught.value
        assert told["job"].network is not None
        assert told["job"].engine == "cpu"
        assert ended.seen[0]["outcome"].error is caught.value

    def test_another_action_that_fails(self, recipe):
        failed = recorder("cntk_exception", "job", "error")
        with pytest.raises(CntkError) as caught:
            run("command=Test", "Test=[modelPath=none.dnn]", listeners=[failed])
        (told,) = failed.seen
        assert (told["job"].name, told["error"]) == ("Test", caught.value)

    def test_none_without_a_failure(self, recipe):
        failed = recorder("cntk_exception", "job", "error")
        run(listeners=[failed])
        assert failed.seen == []


class TestEngine:
    def test_its_name_is_told(self, recipe):
        jobs = recorder("cntk_job_begin", "job")
        plans = recorder("cntk_plan_ready", "plan", "engine")
        run("command=Train:Test:Write", listeners=[jobs, plans])
        assert [(told["job"].name, told["job"].engine) for told in jobs.seen] == [
            ("Train", "cpu"),
            ("Test", "cpu"),
            ("Write", "cpu"),
        ]
        assert [told["engine"] for told in plans.seen] == ["cpu"]

    def test_not_of_an_action_that_needs_none(self, recipe):
        jobs = recorder("cntk_job_begin", "job")
        run("command=P", "P=[action=PrintAction;what=hello]", listeners=[jobs])
        assert [told["job"].engine for told in jobs.seen] == [""]


class TestKeys:
    READER_KEY = "Train=[reader=[colour=red]]"

    def test_a_reader_does_not_see_them(self, recipe):
        with pytest.raises(CntkError, match="has no option 'colour'"):
            run(self.READER_KEY, "strict=true")
        keys = recorder(
            "cntk_section_keys", "section", answer=lambda section: ["Colour"] if section == "reader" else None
        )
        seen = recorder("cntk_job_begin", "job")
        run(self.READER_KEY, "strict=true", listeners=[keys, seen])
        assert {told["section"] for told in keys.seen} == {"reader", "SGD"}
        section = seen.seen[0]["job"].block.parent
        assert section.section("reader").string("colour") == "red"

    def test_the_sgd_block(self, recipe):
        with pytest.raises(CntkError, match="has no option 'colour'"):
            run("Train=[SGD=[colour=red]]", "strict=true")
        run("Train=[SGD=[colour=red]]", "strict=true", listeners=[
            recorder("cntk_section_keys", "section", answer=lambda section: ["colour"] if section == "SGD" else None)
        ])  # fmt: skip

    def test_a_block_itself_when_nobody_has_keys(self, recipe):
        from cntk_core.config import load_recipe
        from cntk_kit_recipes.recipe.context import ActionContext

        context = ActionContext.create(load_recipe(["configFile=r.cntk"]), Log(quiet=True))
        block = context.config.section("Train").section("reader")
        assert context.without_hook_keys(block, "reader") is block


class TestNetworks:
    def test_two_passes_add_up(self, recipe):
        class Scaled:
            def __init__(self, factor):
                self.factor = factor

            @hookimpl
            def cntk_network_built(self, network):
                network["W"].learning_rate_multiplier *= self.factor
                return network

        run("Train=[SGD=[learningRatesPerSample=0.6]]")
        run("modelPath=run/b.dnn", listeners=[Scaled(2.0), Scaled(3.0)])
        np.testing.assert_allclose(weights("run/b.dnn"), weights(), rtol=1e-12)

    def test_an_answer_that_is_no_network(self, recipe):
        Path("p.py").write_text(
            "from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_network_built(network): return 3\n",
            encoding="utf-8",
        )
        with pytest.raises(BrokenPluginError) as caught, closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk"], log, plugin_files=["p.py"])
        assert str(caught.value).startswith(
            "hook cntk_network_built of p.py failed: WrongAnswer: it answered 3, not a Network\n    it is at "
        )
