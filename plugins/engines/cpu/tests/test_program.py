"""Training on this engine against the reference: layers, losses, rules, minibatches of changing size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cntk_engine_cpu import folds
from cntk_engine_cpu.folds import bands
from cpu_networks import (
    BACKENDS,
    SCALARS,
    Net,
    adagrad_rule,
    assert_same_gradients,
    assert_same_training,
    compile_on,
    engine,
    minibatch,
    momentum_rule,
    train,
)

from cntk_core.api import DataError, Minibatch, NetworkError, Slot, StreamData, UpdateRule
from cntk_core.api.engines import frame_layout

STREAMS = {"x": (7,), "l": ("class", 3)}


def mlp(dtype=np.float32, sizes=(7, 6, 5, 3), act="Sigmoid", column_bias=False, dropout=False):
    net = Net(dtype=dtype)
    h, labels = net.input("x", sizes[0]), net.input("l", sizes[-1])
    for layer, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        bias = net.parameter(*((1, columns) if column_bias else (columns,)), name=f"b{layer}")
        h = net.node("Plus", net.node("Times", net.parameter(rows, columns, name=f"W{layer}"), h), bias)
        if layer < len(sizes) - 2:
            h = net.node(act, h)
            if dropout:
                h = net.node("Dropout", h)
    z = net.node("Pass", h, name="z")
    error = net.node("ClassificationError", labels, z, name="err")
    return net.plan(net.node("CrossEntropyWithSoftmax", labels, z, name="ce"), error, z)


def batches(sizes=(4, 9, 1, 9, 4), streams=STREAMS, dtype=np.float32, seed=3):
    rng = np.random.default_rng(seed)
    return [minibatch(rng, size, streams, dtype) for size in sizes]


@pytest.fixture(params=list(BACKENDS))
def backend(request):
    if "compiled" in request.param:
        pytest.importorskip("llvmlite")
    return request.param


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("act", ["Sigmoid", "Tanh", "RectifiedLinear"])
@pytest.mark.sampled(3)
def test_mlp_trains_as_the_reference(backend, act, dtype):
    assert_same_training(mlp(dtype, act=act), backend, batches(dtype=dtype), momentum_rule(), dtype)


def test_nesterov(backend):
    assert_same_training(mlp(), backend, batches(), momentum_rule(nesterov=True))


def test_clipping_is_not_folded(backend):
    assert_same_training(mlp(), backend, batches(), momentum_rule(clip=0.05))


def test_a_rule_that_is_not_linear(backend):
    assert_same_training(mlp(), backend, batches(), adagrad_rule(), scalars={"step": 0.01})


def test_a_column_vector_as_bias(backend):
    assert_same_training(mlp(column_bias=True), backend, batches(), momentum_rule())


def test_different_numbers_for_parameters(backend):
    plan = mlp()
    rule = momentum_rule()
    (one, first), (other, second) = (compile_on(engine(backend), plan, rule) for _ in range(2))
    numbers = [{"momentum": 0.9, "step": 0.01 * (index + 1)} for index in range(len(plan.trained))]
    for batch in batches():
        first.train_step(batch, numbers)
        second.compute_gradients(batch)
        second.update(numbers)
    for parameter in plan.trained:
        np.testing.assert_allclose(one.value(parameter), other.value(parameter), rtol=1e-5, atol=1e-6)


def test_large_weights_are_updated_band_by_band(backend):
    # 800 x 700 weights are more than one band, and the last band is not a whole one.
    plan = mlp(sizes=(800, 700, 3))
    assert_same_training(plan, backend, batches((5, 3), {"x": (800,), "l": ("class", 3)}), momentum_rule())


def test_large_weights_of_many_frames_are_updated_at_once(backend, monkeypatch):
    monkeypatch.setattr(folds, "PANEL_OPERAND", 4 * 700)
    banded = []
    whole = folds._panels

    def panels(*arguments):
        found = whole(*arguments)
        banded.extend(found or ())
        return found

    monkeypatch.setattr(folds, "_panels", panels)
    plan = mlp(sizes=(800, 700, 3))
    for frames, expected in ((5, 0), (4, 5)):
        data = batches((frames, frames), {"x": (800,), "l": ("class", 3)})
        assert_same_training(plan, backend, data, momentum_rule())
        assert len(banded) == expected


def test_a_rule_without_numbers(backend):
    """Its factors of a folded product are numbers that never change."""

    def expression(m, value, gradient, slots, scalars):
        smoothed = 0.5 * slots["s"] + 0.25 * gradient
        return value - smoothed, {"s": smoothed}

    rule = UpdateRule((Slot("s"),), (), expression)
    plan = mlp(sizes=(6, 5, 3))
    assert_same_training(plan, backend, batches((5, 3), {"x": (6,), "l": ("class", 3)}), rule, scalars={})


def test_long_rows_are_cut(backend):
    plan = mlp(sizes=(60, 5000))
    assert_same_training(plan, backend, batches((3, 4), {"x": (60,), "l": ("class", 5000)}), momentum_rule())


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((784, 256), {(392, 256)}), ((512, 512), {(256, 512)}), ((60, 5000), {(60, 1000)}), ((1, 3), {(1, 3)})],
)
def test_bands_cover_a_matrix_once(shape, sizes):
    covered = np.zeros(shape, int)
    for rows, columns in bands(*shape, split_rows=True):
        covered[rows, columns] += 1
        assert (rows.stop - rows.start, columns.stop - columns.start) in sizes
    assert (covered == 1).all()


def test_large_transposed_weights(backend):
    net = Net()
    x, labels = net.input("x", 700), net.input("l", 800)
    z = net.node("TransposeTimes", net.parameter(800, 700, scale=0.05), x)
    plan = net.plan(net.node("CrossEntropyWithSoftmax", labels, z))
    assert_same_training(plan, backend, batches((4, 4), {"x": (700,), "l": ("class", 800)}), momentum_rule())


def test_shared_weights_are_summed(backend):
    net = Net()
    x, labels, weights = net.input("x", 5), net.input("l", 5), net.parameter(5, 5)
    h = net.node("Tanh", net.node("Times", weights, x))
    plan = net.plan(net.node("CrossEntropyWithSoftmax", labels, net.node("Times", weights, h)))
    assert_same_training(plan, backend, batches(streams={"x": (5,), "l": ("class", 5)}), momentum_rule())


def test_a_frozen_parameter_stays(backend):
    net = Net()
    x, labels = net.input("x", 7), net.input("l", 3)
    frozen = net.parameter(7, 4, rate=0.0)
    z = net.node("Times", net.parameter(4, 3), net.node("Sigmoid", net.node("Times", frozen, x)))
    plan = net.plan(net.node("CrossEntropyWithSoftmax", labels, z))
    assert frozen not in plan.trained
    assert_same_training(plan, backend, batches(), momentum_rule())


def test_weights_that_a_later_gradient_reads(backend):
    # The square of the weights is a second use, whose gradient step comes after that of the product.
    net = Net()
    x, labels, weights = net.input("x", 7), net.input("l", 3), net.parameter(7, 3)
    loss = net.node("CrossEntropyWithSoftmax", labels, net.node("Times", weights, x))
    size = net.node("SumElements", net.node("ElementTimes", weights, weights))
    plan = net.plan(net.node("Plus", loss, size))
    assert_same_training(plan, backend, batches(), momentum_rule())


def test_square_error_and_products_of_frames(backend):
    net = Net()
    x, target = net.input("x", 4), net.input("t", 4)
    h = net.node("ElementTimes", net.node("Times", net.parameter(4, 4), x), net.node("Sigmoid", x))
    h = net.node("Minus", h, net.parameter(1))
    plan = net.plan(net.node("SquareError", target, h))
    assert_same_training(plan, backend, batches(streams={"x": (4,), "t": (4,)}), momentum_rule())


def test_dropout_draws_what_the_reference_draws(backend):
    plan = mlp(dropout=True)
    assert_same_gradients(plan, backend, batches()[0], dropoutRate=0.4)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    plan = mlp(sizes=(300, 260, 3))
    store, program = compile_on(engine("compiled+onednn", threads), plan, momentum_rule())
    other, alone = compile_on(engine("numpy+blas"), plan, momentum_rule())
    for each in (program, alone):
        train(each, batches((300,), {"x": (300,), "l": ("class", 3)}), folded=True)
    for parameter in plan.trained:
        np.testing.assert_allclose(store.value(parameter), other.value(parameter), rtol=1e-4, atol=1e-5)


def test_the_same_numbers_again(backend):
    plan = mlp()
    runs = []
    for _ in range(2):
        store, program = compile_on(engine(backend), plan, momentum_rule())
        train(program, batches(), folded=True)
        runs.append(store.values.copy())
    np.testing.assert_array_equal(*runs)


def test_nan_is_not_hidden(backend):
    plan = mlp()
    _, program = compile_on(engine(backend), plan, momentum_rule())
    (batch,) = batches((4,))
    batch.streams["x"].data[2, 3] = np.nan
    program.evaluate(batch)
    assert np.isnan(program.read_totals()["ce"])
    assert np.isnan(program.value("z")).any(axis=1).tolist() == [False, False, True, False]


def test_evaluation_of_a_plan_without_criterion(backend):
    net = Net()
    z = net.node("Sigmoid", net.node("Times", net.parameter(7, 3), net.input("x", 7)), name="z")
    plan = net.plan(None, z)
    _, program = compile_on(engine(backend), plan)
    (batch,) = batches((5,))
    program.evaluate(batch)
    weights = plan.parameters[0].value
    expected = 1 / (1 + np.exp(-(batch.streams["x"].data.astype(float) @ weights)))
    np.testing.assert_allclose(program.value("Z"), expected, rtol=1e-5)
    with pytest.raises(NetworkError, match="the plan has no gradients"):
        program.compute_gradients(batch)


def test_sparse_and_double_streams_are_converted(backend):
    sparse = pytest.importorskip("scipy.sparse")
    plan = mlp()
    (batch,) = batches((6,))
    _, dense = compile_on(engine(backend), plan)
    dense.compute_gradients(batch)
    layout = frame_layout(6)
    streams = {
        "x": StreamData(sparse.csr_array(batch.streams["x"].data.astype(np.float64)), layout),
        "L": StreamData(batch.streams["l"].data.astype(np.float64), layout),
    }
    _, program = compile_on(engine(backend), plan)
    program.compute_gradients(Minibatch(streams, 6))
    np.testing.assert_array_equal(program.value("z"), dense.value("z"))
    assert program.read_totals() == dense.read_totals()


def test_totals_are_summed_until_read(backend):
    plan = mlp()
    _, program = compile_on(engine(backend), plan)
    found = batches((4, 6))
    single = []
    for batch in found:
        program.evaluate(batch)
        single.append(program.read_totals())
    for batch in found:
        program.evaluate(batch)
    together = program.read_totals()
    assert together["ce"] == pytest.approx(single[0]["ce"] + single[1]["ce"])
    assert together["err"] == single[0]["err"] + single[1]["err"]
    assert program.read_totals() == {"ce": 0.0, "err": 0.0}


def test_memory_is_that_of_the_largest_minibatch():
    plan = mlp()
    _, program = compile_on(engine("numpy+blas"), plan, momentum_rule())
    assert program.memory() == 0
    train(program, batches((9,)), folded=True)
    largest = program.memory()
    train(program, batches((4, 9, 1)), folded=True)
    assert program.memory() == largest > 0


def test_an_input_without_a_stream():
    _, program = compile_on(engine("numpy+blas"), mlp())
    (batch,) = batches((2,))
    with pytest.raises(DataError) as error:
        program.evaluate(Minibatch({"l": batch.streams["l"]}, 2))
    assert error.value.message == "the minibatch has no stream for the input 'x'"


def test_streams_of_different_lengths():
    _, program = compile_on(engine("numpy+blas"), mlp())
    short, long = batches((2, 3))
    with pytest.raises(DataError) as error:
        program.evaluate(Minibatch({"x": long.streams["x"], "l": short.streams["l"]}, 3))
    assert "the streams of one minibatch differ in length" in error.value.message


def test_an_unknown_root():
    _, program = compile_on(engine("numpy+blas"), mlp())
    with pytest.raises(NetworkError) as error:
        program.value("zz")
    assert error.value.message == "the plan has no root 'zz'; did you mean 'z'?"
    with pytest.raises(NetworkError) as error:
        program.value("z")
    assert error.value.message == "the root 'z' has not been computed yet"


def test_an_update_without_a_rule():
    _, program = compile_on(engine("numpy+blas"), mlp())
    (batch,) = batches((2,))
    for call in (lambda: program.update([SCALARS] * 6), lambda: program.train_step(batch, [SCALARS] * 6)):
        with pytest.raises(NetworkError) as error:
            call()
        assert error.value.message == "the program was compiled without an update rule"


def test_a_rule_without_slots(backend):
    def expression(m, value, gradient, slots, scalars):
        return value - scalars["step"] * gradient, {}

    rule = UpdateRule((), ("step",), expression)
    assert_same_training(mlp(), backend, batches(), rule, scalars={"step": 0.05})
