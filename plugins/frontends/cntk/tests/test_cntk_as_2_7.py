"""What CNTK 2.7 itself gave for the same lines: shapes, values, names and printed forms."""

from __future__ import annotations

from typing import Any

import cntk as C
import numpy as np
import pytest


def shown(f: Any) -> str:
    return str(f).replace("x: ", "")


def test_operations_are_called_and_printed_as_there() -> None:
    x, wide = C.input_variable(3, name="x"), C.input_variable((2, 3), np.float64)
    steps = C.sequence.input_variable(3, name="s")
    assert [shown(f) for f in (C.sigmoid(x), C.alias(x), C.one_hot(x, 4), C.element_not(x), C.element_xor(x, x))] == [
        "StableSigmoid(Tensor[3]) -> Tensor[3]",
        "NoOp(Tensor[3]) -> Tensor[3]",
        "OneHotOp(Tensor[3]) -> Tensor[3,4]",
        "Not(Tensor[3]) -> Tensor[3]",
        "Xor(Tensor[3]) -> Tensor[3]",
    ]
    assert [shown(f) for f in (C.squared_error(x, x), C.exp(wide), C.cast(x, np.float64), C.unpack_batch(x))] == [
        "SquaredError(Tensor[3]) -> np.float32",
        "Exp(Tensor[np.float64,2,3]) -> Tensor[np.float64,2,3]",
        "Cast(Tensor[3]) -> Tensor[np.float64,3]",
        "UnpackBatchAxis(Tensor[3]) -> ParameterTensor[-3,3]",
    ]
    assert (
        str(C.sequence.unpack(steps, 0))
        == "UnpackSequenceOp(s: Sequence[Tensor[3]]) -> Tuple[Tensor[-3,3], Tensor[-3]]"
    )
    assert str(C.sequence.is_first(steps)) == "Sequence::IsFirst(s: Sequence[Tensor[3]]) -> Sequence[np.float32]"
    assert C.sequence.where(C.sequence.is_first(steps)).root_function.op_name == "Where"


def test_values_are_printed_as_there() -> None:
    rows = np.ones((2, 3), np.float32)
    assert (repr(C.Value(rows)), str(C.NDArrayView.from_dense(rows))) == (
        "Value([2 x 3], CPU)",
        "NDArrayView([2 x 3], CPU)",
    )
    source = C.io.MinibatchSourceFromData({"x": rows})
    data = source.next_minibatch(2)[source.streams.x]
    assert repr(data) == "MinibatchData(data=Value([2 x 3], CPU), samples=2, seqs=2)"
    assert repr(source.streams.x) == "x([3])"
    assert (str(C.DataUnit.sample), C.DataUnit.sample.value, C.DataUnit.sweep.value) == ("DataUnit.sample", 1, 0)


def test_a_value_is_valid_until_the_next_evaluation() -> None:
    x = C.input_variable(2, needs_gradient=True)
    f, at = x * x, {x: np.array([[1, 2]], np.float32)}
    first = f.grad(at, as_numpy=False)
    second = f.eval(at, as_numpy=False)
    assert (first.is_valid, second.is_valid) == (False, True)
    other = (f + 1).eval(at, as_numpy=False)
    state, kept = f.forward(at, [f.output], [f.output], as_numpy=False)
    back = f.backward(state, {f.output: np.ones((1, 2), np.float32)}, [x], as_numpy=False)
    assert (second.is_valid, other.is_valid, kept[f.output].is_valid, back[x].is_valid) == (False, True, True, True)
    f.eval(at)
    assert not kept[f.output].is_valid
    other.erase()
    assert not other.is_valid


def test_members_of_values() -> None:
    x = C.sequence.input_variable(2)
    value = C.Value.create(x, [np.ones((3, 2), np.float32), np.zeros((1, 2), np.float32)])
    assert (len(value), value.masked_count(), value.get_data_type(), value.get_storage_format()) == (2, 2, 1, 0)
    assert value.mask.tolist() == [[2, 1, 1], [2, 0, 0]]
    rows, begins = value.unpack_variable_value(x)
    assert ([each.shape for each in rows], begins) == ([(3, 2), (1, 2)], (True, True))
    copied = value.deep_clone()
    copied.copy_from(C.Value.create(x, [np.full((3, 2), 5, np.float32), np.full((1, 2), 6, np.float32)]))
    assert (value.asarray().max(), copied.asarray().max()) == (1, 6)
    assert value.alias(True).is_read_only
    with pytest.raises(
        ValueError, match=r"^a value of the shape \(2, 3, 2\) cannot take the numbers of one of \(1, 2\)$"
    ):
        value.copy_from(C.Value([[1.0, 2.0]]))
    dense = C.Value.create_dense_double((2,), [[1, 2], [3, 4, 5, 6]], [True, False])
    assert (dense.dtype, dense.asarray()[1].tolist()) == (np.float64, [[3, 4], [5, 6]])
    assert C.Value.create_one_hot_float(3, [[1, 2]]).asarray().toarray().tolist() == [[0, 1, 0], [0, 0, 1]]


def test_members_of_arrays() -> None:
    view = C.NDArrayView.from_dense(np.arange(6, dtype=np.float64).reshape(2, 3))
    assert (view.get_data_type(), view.to_ndarray()[1].tolist(), view.is_slice_view()) == (2, [3, 4, 5], True)
    copied, shared = view.deep_clone(C.cpu()), view.alias()
    shared.set_value(7)
    assert (copied.asarray().max(), view.asarray().min()) == (5, 7)
    view.copy_from(copied)
    assert view.asarray()[1, 2] == 5
    with pytest.raises(ValueError, match=r"^this array is read-only$"):
        view.alias(True).set_value(1)
    with pytest.raises(ValueError, match=r"^an array of the shape \(2, 3\) cannot take the numbers of one of \(2,\)$"):
        view.copy_from(C.NDArrayView(2))
    drawn = C.NDArrayView.random_uniform_float((50, 4), 2.0, 3.0, 1).asarray()
    assert (drawn.shape, drawn.dtype, 2 <= drawn.min() < drawn.max() <= 3) == ((50, 4), np.float32, True)


def test_members_of_variables_and_axes() -> None:
    x, p = C.sequence.input_variable(3, name="x"), C.parameter((2,), init=1)
    assert (x.as_string(), x.has_batch_axis(), x.has_sequence_axis()) == ("Input('x', [#, *], [3])", True, True)
    assert [each.kind() for each in (x, (x + 1).output, p, C.constant(1), C.placeholder())] == [0, 1, 2, 3, 4]
    assert (p.get_data_type(), C.placeholder().get_data_type(), p.has_batch_axis()) == (1, 0, False)
    p.value = p.value + 1
    p.record_value_update()
    assert (p.current_value_time_stamp(), p.get_value().asarray().tolist()) == (2, [2, 2])
    with pytest.raises(ValueError, match="has no value: parameters and constants have one"):
        x.get_value()
    with pytest.raises(ValueError, match="has no value, so it was never set"):
        x.current_value_time_stamp()
    assert C.constant(3).clone_as(C.cntk_py.DataType_Double).dtype == np.float64
    assert (C.Axis(0).is_dynamic_axis(), C.Axis("a").is_dynamic_axis()) == (False, True)
    assert not any(each.is_dynamic_axis() for each in (*C.Axis.unknown_dynamic_axes(), C.Axis.all_axes()))
    assert C.Axis.end_static_axis() == C.Axis.new_leading_axis()
    assert C.Axis.operand_sequence_axis().as_string() == "Axis('__operandSequenceAxis')"
    for wrong in (1.5, None, [1]):
        with pytest.raises(TypeError, match="an axis is made of a whole number, of a name or of another axis"):
            C.Axis(wrong)


def test_members_of_functions_learners_and_trainers() -> None:
    x, w = C.input_variable(3), C.parameter((3, 1))
    z = C.times(x, w)
    z.set_name("z")
    assert (z.name, z.current_version(), z.root_function.current_version(), z.max_num_outputs) == ("z", 3, 24, 64)
    z.custom_attributes["a"] = 1
    z.reset_custom_attributes()
    assert z.get_custom_attributes() == {}
    learner = C.momentum_sgd([w], 0.1, 0.9)
    trainer = C.Trainer(z, (C.reduce_sum(z), None), learner)
    trainer.train_minibatch({x: np.ones((4, 3), np.float32)}, is_sweep_end=True)
    units = (C.DataUnit.sample, C.DataUnit.minibatch, C.cntk_py.DataUnit_Sweep)
    assert [trainer.total_number_of_units_seen(each) for each in units] == [4, 1, 1]
    with pytest.raises(
        ValueError, match=r"^a unit of data is a sweep \(0\), a sample \(1\) or a minibatch \(2\), not 9$"
    ):
        trainer.total_number_of_units_seen(9)
    assert (trainer.progress_writers(), trainer.parameter_learners) == ([], (learner,))
    assert (learner.total_number_of_minibatches_seen(), learner.total_number_of_sweeps_seen()) == (1, 1)
    assert np.any(learner.create_checkpoint()["smoothed_gradients"][0])
    learner.reset_smoothed_gradients()
    assert not np.any(learner.create_checkpoint()["smoothed_gradients"][0])
    assert (learner.current_version(), learner.is_compatible_mode()) == (3, False)
    for none in ([], None):
        with pytest.raises(ValueError, match="a Trainer needs at least one learner"):
            C.Trainer(z, (C.reduce_sum(z), None), none)
    with pytest.raises(ValueError, match="an update needs the gradient of each parameter; there is none of Parameter"):
        learner.update({}, 1)


def test_a_session_tells_a_class_of_one_s_own() -> None:
    class Told(C.TrainingSession):
        told: list[str] = []

        def on_minibatch_start(self) -> None:
            self.told.append(f"size {self.get_minibatch_size()}")

        def on_minibatch_end(self) -> None:
            self.told.append("end")

        def on_cross_validation_start(self, index: int) -> None:
            self.told.append(f"test {index}")

    x, w = C.input_variable(2), C.parameter((2, 1))
    loss = C.reduce_sum(C.times(x, w))
    data = np.ones((4, 2), np.float32)
    trainer = C.Trainer(None, (loss, loss), C.sgd([w], 0.1))
    tested = C.CrossValidationConfig((data,), frequency=4, criterion=loss)
    Told(trainer, (data,), 4, None, 4, None, C.CheckpointConfig(None), tested, C.TestConfig(None)).train()
    assert Told.told == ["size 4", "end", "test 0", "size 4", "end"]


def test_shapes_and_values_that_differ_from_numpy() -> None:
    x = C.input_variable((2, 3, 4))
    assert [C.expand_dims(x, axis).shape for axis in (0, 2, -1, -4)] == [
        (2, 1, 3, 4), (2, 3, 4, 1), (2, 3, 4, 1), (1, 2, 3, 4),
    ]  # fmt: skip
    assert [C.flatten(x, axis).shape for axis in (0, 1, -1, -2)] == [(1, 24), (2, 12), (24, 1), (6, 4)]
    channels = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)
    found = C.local_response_normalization(C.input_variable((6, 1, 1)), 2, 1, 1, 1).eval(channels).ravel()
    np.testing.assert_allclose(found, [0, 0.263158, 0.285714, 0.25, 0.338983, 0.454545], atol=1e-6)
    image = C.input_variable((3, 5, 5))
    kernel = C.parameter((3, 4, 2, 2), init=np.arange(48, dtype=np.float32).reshape(3, 4, 2, 2) / 10)
    grown = C.convolution_transpose(kernel, image, strides=(2, 2))
    assert (grown.shape, grown.eval(np.ones((1, 3, 5, 5), np.float32)).sum()) == ((4, 9, 9), pytest.approx(2268))
    y = C.input_variable(2)
    assert (str(C.mean([y, y]).root_function.op_name), len(C.combine([y, y]).outputs)) == ("Mean", 2)
    assert C.sum([y, y, 1]).eval(np.ones((1, 2), np.float32)).tolist() == [[3, 3]]
    layers = C.layers.Dense(3, init=1.0) << C.layers.Dense(4, init=1.0)
    assert layers(y).eval(np.ones((1, 2), np.float32)).tolist() == [[8, 8, 8]]
    steps = C.sequence.input_variable(2)
    window, there = C.layers.PastValueWindow(3, axis=0)(steps).outputs
    assert (window.shape, there.shape) == ((6,), (3,))
    found = C.combine([window, there]).eval([np.arange(4, dtype=np.float32).reshape(2, 2)])
    assert (found[window].tolist(), found[there].tolist()) == ([[2, 3, 0, 1, 0, 0]], [[1, 1, 0]])
