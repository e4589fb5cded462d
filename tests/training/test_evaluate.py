"""Evaluation: sums, lines, perplexity."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from small import Lines, ListReader, make_data, make_network, operation

from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError
from cntk_core.network.node import Parameter
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.criteria import CriterionSums
from cntk_kit_recipes.session.evaluate import evaluate
from cntk_kit_recipes.session.run_log import RunLog
from cntk_testing.reference import ReferenceEngine

DATA = make_data(20, 5)


def run(names, size, *more, trace_level=0, **keywords):
    network = make_network()
    lines = Lines()
    nodes = [network[name] for name in names]
    log = RunLog(lines, trace_level=trace_level)
    return evaluate(network, ReferenceEngine(), ListReader(DATA), nodes, size, *more, log, **keywords), lines


def by_hand(frames: int = 20) -> float:
    w = {parameter.name: parameter.value for parameter in make_network().parameters}
    x, y = DATA["features"][:frames], DATA["labels"][:frames]
    z = 1 / (1 + np.exp(-(x @ w["W0"] + w["b0"]))) @ w["W1"] + w["b1"]
    return float(np.sum(np.log(np.exp(z).sum(1)) - (z * y).sum(1)))


def test_the_size_of_minibatches_and_parts_does_not_matter():
    for size, parts in ((40960, 1), (7, 1), (20, 3), (7, 4)):
        result, _ = run(["errs", "ce"], size, 0, parts=parts)
        assert list(result) == ["errs", "ce"]
        assert result["ce"].total == pytest.approx(by_hand(), rel=1e-12)
        assert result["ce"].samples == 20


def test_part_of_the_data():
    result, lines = run(["ce"], 8, 12)
    assert result["ce"].total == pytest.approx(by_hand(12), rel=1e-12)
    assert lines.all[-1].startswith("Final Results: Minibatch[1-2]: ce = ")


def test_only_cross_entropies_have_a_perplexity():
    result, lines = run(["errs", "ce"], 40960, 0)
    match = re.fullmatch(
        r"Final Results: Minibatch\[1-1\]: errs = (\d+\.\d{3})% \* 20; "
        r"ce = (\d\.\d{8}) \* 20; perplexity = (\d\.\d{8})",
        lines.all[0],
    )
    assert match
    assert float(match[1]) == pytest.approx(100 * result["errs"].average, abs=1e-3)
    assert float(match[3]) == pytest.approx(math.exp(result["ce"].average), abs=1e-8)
    assert len(lines.all) == 1


def test_lines_in_between_at_trace_level_1():
    _, lines = run(["ce"], 2, 0, trace_level=1, show_every=4, show_first=1)
    heads = [line.split(": ce")[0] for line in lines.all]
    assert heads == [
        "Minibatch[1-1]", "Minibatch[2-4]", "Minibatch[5-8]", "Minibatch[9-10]", "Final Results: Minibatch[1-10]",
    ]  # fmt: skip
    assert [int(line.split(" * ")[1].split(";")[0]) for line in lines.all] == [2, 6, 8, 4, 20]
    assert "perplexity" not in "".join(lines.all[:-1])


def test_each_minibatch_is_told():
    told: list[tuple[int, int]] = []
    run(["ce"], 8, 0, each=lambda index, samples: told.append((index, samples)))
    assert told == [(0, 8), (1, 8), (2, 4)]


def test_no_data_is_an_error():
    network = make_network()
    with pytest.raises(DataError) as caught:
        evaluate(network, ReferenceEngine(), ListReader(make_data(0)), [network["ce"]], 8, 0, RunLog(Lines()))
    assert str(caught.value) == "there is no data to evaluate: the reader gave no minibatch"


def test_a_value_per_frame_is_summed():
    network = make_network()
    node = operation(network, "twice", "Plus", network["features"], network["features"])
    network.infer()
    result = evaluate(network, ReferenceEngine(), ListReader(DATA), [node], 6, 0, RunLog(Lines()))
    assert result["twice"].total == pytest.approx(2 * DATA["features"].sum())


def with_accumulator():
    network = make_network()
    half = network.add(Parameter.make("half", (1,), value=np.array([0.5]), learning_rate_multiplier=0.0))
    first = operation(network, "first", "RowSlice", network["features"], begin=0, end=1)
    mean = operation(network, "mean", "EpochAccumulator", first)
    node = operation(network, "above", "Minus", mean, half)
    network.infer()
    return network, node


@pytest.mark.parametrize("size", [20, 6])
def test_what_is_made_of_means_of_the_epoch_is_shown_as_it_is(size):
    network, node = with_accumulator()
    lines = Lines()
    log = RunLog(lines, trace_level=1)
    result = evaluate(network, ReferenceEngine(), ListReader(DATA), [network["ce"], node], size, 0, log, show_every=1)
    assert result["above"].average == pytest.approx(DATA["features"][:, 0].mean() - 0.5)
    assert (result["above"].samples, result["ce"].samples) == (1, 20)
    shown = [float(line.split("above = ")[1].split(" * 1")[0]) for line in lines.all if "above = " in line]
    means = [DATA["features"][:end, 0].mean() - 0.5 for end in [*range(size, 20, size), 20, 20]]
    assert shown == pytest.approx(means, abs=1e-8)


def test_ranks_show_the_mean_of_what_they_have_of_the_epoch():
    network, node = with_accumulator()
    store = ParameterStore(network.parameters, network.dtype)
    program = ReferenceEngine().compile(make_plan(network, [network["ce"], node]), store)
    sums = CriterionSums(program, [network["ce"], node])
    own = dict.fromkeys(sums.names, 0.0)
    for one in ListReader(DATA).minibatches(EpochSpec(minibatch_size=8)):
        program.evaluate(one)
        own = sums.joined(own, sums.take())
    assert own["ce"] == pytest.approx(by_hand())
    other = {name: 3 * value if name == "above" else value for name, value in own.items()}
    sums.put({name: own[name] + other[name] for name in own}, 40)
    assert sums.read()["above"].average == pytest.approx(2 * (DATA["features"][:, 0].mean() - 0.5))
    assert sums.read()["ce"].total == pytest.approx(2 * by_hand())
    sums.put(dict.fromkeys(own, 0.0), 0)  # a step without samples
    assert sums.read()["above"].samples == 2


def test_what_ran_before_does_not_count():
    class Program:
        totals = {"ce": 5.0}

        def read_totals(self):
            found, self.totals = self.totals, {"ce": 0.0}
            return found

    program = Program()
    sums = CriterionSums(program, [make_network()["ce"]])
    program.totals = {"ce": 3.0}
    sums.add(2)
    assert sums.read()["ce"].average == 1.5
