"""Kernels whose rows several threads share: the same results, whatever their number."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import recurrent_checks
from cntk_engine_cpu import loop_cells, loop_source, parts, sparse
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import (
    OPS,
    Net,
    adagrad_rule,
    assert_same_training,
    compile_on,
    engine,
    minibatch,
    momentum_rule,
    train,
)
from recurrent_checks import LENGTHS, assert_same
from recurrent_networks import minibatches, recurrent_plan
from scipy.sparse import csr_array
from test_normalization import apply, convolved, normalized, total_of

from cntk_core.api import Input, Minibatch, StreamData
from cntk_core.api.engines import frame_layout

NEEDED = load_onednn() is not None and bool(load_onednn().openmp) and find_spec("llvmlite") is not None
pytestmark = pytest.mark.skipif(not NEEDED, reason="needs llvmlite, oneDNN and OpenMP")


@pytest.fixture
def made(monkeypatch):
    """The numbers of parts of what was split; much less is split than otherwise."""
    found = []
    monkeypatch.setattr(parts, "SPLIT_ELEMENTS", 1 << 10)
    monkeypatch.setattr(parts, "PART_ELEMENTS", 1 << 7)
    monkeypatch.setattr(parts, "SUMMED_ROWS", 8)
    monkeypatch.setattr(sparse, "SUMMED_COLUMNS", 4)

    class Watched(parts.Team):
        def row(self, function, blocks):
            found.append(len(blocks))
            return super().row(function, blocks)

    monkeypatch.setattr("cntk_engine_cpu.gemm.Team", Watched)
    return found


def trained(net, criterion, batches, rule, threads):
    """Everything that training some minibatches leaves, folded and not."""
    left = []
    for folded in (True, False):
        store, program = compile_on(engine("compiled+onednn", threads), net.plan(criterion), rule)
        train(program, batches, folded=folded)
        left += [np.array(store.values), np.array(store.gradients), *map(np.array, store.slots.values())]
        left += [np.array(total) for total in program.read_totals().values()]
    return left


def check(made, net, criterion, streams, rule, frames=(130, 130, 5, 64)):
    """One, two and three threads leave the same, which is what the reference leaves; and work is split."""
    batches = [minibatch(net.rng, count, streams) for count in frames]
    alone, *others = (trained(net, criterion, batches, rule, threads) for threads in (1, 2, 3))
    assert made
    assert max(made) > 2
    for left in others:
        for one, other in zip(alone, left, strict=True):
            np.testing.assert_array_equal(one, other)
    assert_same_training(net.plan(criterion), "compiled+onednn", batches, rule)


@pytest.mark.parametrize(
    "rule",
    [
        momentum_rule(),
        pytest.param(momentum_rule(clip=0.5), marks=pytest.mark.slow),
        pytest.param(adagrad_rule(), marks=pytest.mark.slow),
    ],
)
def test_rows_and_updates(made, rule):
    """Element-wise steps with sums for biases, layer normalization, criteria, and the learners' passes."""
    net = Net()
    x = net.input("x", 30)
    hidden = net.node("Sigmoid", net.node("Plus", net.node("Times", net.parameter(30, 40), x), net.parameter(40)))
    axes = OPS["LayerNormalization"].attributes(axes=1)
    made_even = net.node("LayerNormalization", hidden, net.parameter(40), net.parameter(40), attributes=axes)
    z = net.node("Times", net.parameter(40, 20), net.node("ElementTimes", made_even, net.parameter(1)))
    loss = net.node("CrossEntropyWithSoftmax", net.input("l", 20), z, name="ce")
    check(made, net, loss, {"x": (30,), "l": ("class", 20)}, rule)


def test_images(made):
    """Batch normalization, whose rows are taken several as one and summed in parts."""
    net = Net()
    x = net.input("x", 4, 6, 6)
    net.network.infer()
    one = normalized(net, convolved(net, x))
    two = normalized(net, convolved(net, apply(net, "RectifiedLinear", one)))
    check(made, net, total_of(net, apply(net, "Plus", two, one)), {"x": (4, 6, 6)}, momentum_rule(), (40, 40, 9))


def test_a_number_for_each_row(made):
    """What is read at a row, beside whole rows, rows for all and numbers for all, in parts of their own."""
    net = Net()
    x = net.input("x", 30)
    each = net.node("Times", net.parameter(30, 1), x)
    weighed = net.node("ElementTimes", net.node("ElementTimes", x, each), net.parameter(30))
    squashed = net.node("Sigmoid", net.node("Plus", weighed, net.parameter(1)))
    z = net.node("Times", net.parameter(30, 4), squashed)
    loss = net.node("CrossEntropyWithSoftmax", net.input("l", 4), z, name="ce")
    check(made, net, loss, {"x": (30,), "l": ("class", 4)}, momentum_rule(), (130, 5, 64))


def test_sparse_words_and_labels(made):
    """Look-ups and criteria of sparse streams, of other entries in each minibatch."""
    net = Net()
    word, label = (net.network.add(Input.make(name, (50,), sparse=True)) for name in ("w", "l"))
    z = net.node("Times", net.parameter(16, 50), net.node("Tanh", net.node("Times", net.parameter(50, 16), word)))
    loss = net.node("CrossEntropyWithSoftmax", label, z, name="ce")
    batches = []
    for count in (130, 130, 64):
        rows = csr_array(np.eye(50, dtype=np.float32)[net.rng.integers(50, size=count)])
        streams = {"w": StreamData(rows, frame_layout(count)), "l": StreamData(rows.copy(), frame_layout(count))}
        batches.append(Minibatch(streams, count))
    alone, *others = (trained(net, loss, batches, momentum_rule(), threads) for threads in (1, 2, 3))
    assert len(made) > 3 * 3
    for left in others:
        for one, other in zip(alone, left, strict=True):
            np.testing.assert_array_equal(one, other)
    assert_same_training(net.plan(loss), "compiled+onednn", batches, momentum_rule())


def test_parts_do_not_depend_on_threads():
    assert len(parts.part_ends(100, 100)) == 2
    assert parts.part_ends(4, 1 << 20) == [0, 1, 2, 3, 4]
    assert len(parts.part_ends(1 << 20, 10)) == parts.MOST_PARTS + 1
    assert len(parts.part_ends(1 << 8, 1 << 10, sums=True)) == (1 << 8) // parts.SUMMED_ROWS + 1


@pytest.mark.parametrize("elements", [1, 1 << 17, (1 << 20) + 7])
def test_a_range_is_cut_at_lines_of_the_cache(elements):
    ends = parts.range_ends(elements)
    assert (ends[0], ends[-1]) == (0, elements)
    assert ends == sorted(set(ends))
    assert not any(end % parts.LINE for end in ends[:-1])


@pytest.mark.parametrize("name", ["elman", pytest.param("lstm", marks=pytest.mark.slow)])
def test_cells_of_time_loops(monkeypatch, name):
    """One, two and three threads leave the same of a loop, which is what the reference leaves."""
    monkeypatch.setattr(loop_cells, "CELL_WORK", 1)
    monkeypatch.setattr(loop_source, "CELL_WORK", 1)
    made = []
    make = loop_source.make_cell
    monkeypatch.setattr(loop_source, "make_cell", lambda *given: made.append(given) or make(*given))
    batches = minibatches(LENGTHS, np.float32)
    left = []
    for threads in (1, 2, 3):
        plan = recurrent_plan(name, np.float32)
        store, program = compile_on(engine("compiled+onednn", threads), plan, momentum_rule(), np.float32)
        train(program, batches, folded=True)
        left.append(np.array(store.values))
        assert bool(made) == (threads > 1)
    np.testing.assert_array_equal(left[0], left[1])
    np.testing.assert_array_equal(left[1], left[2])
    monkeypatch.setattr(recurrent_checks, "engine", lambda backend: engine(backend, 3))
    assert_same(recurrent_plan(name, np.float32), "compiled+onednn", batches, np.float32)
