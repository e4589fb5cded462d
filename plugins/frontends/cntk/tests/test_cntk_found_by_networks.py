"""What random networks beside the original have shown; expected numbers are those of the original, release 2.7."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest

DOUBLE = np.float64


def test_binary_cross_entropy_is_one_number_for_each_element_with_a_little_in_the_logarithms():
    x, y = (C.input_variable(3, dtype=DOUBLE, needs_gradient=True) for _ in range(2))
    chances, wanted = np.array([[0.3, 0.4, 0.2], [0.6, 0.7, 0.1]]), np.array([[0.1, 0.7, 0.5], [0.2, 0, 1]])
    loss = C.binary_cross_entropy(x, y)
    assert loss.shape == (3,)
    assert loss.root_function.op_name == "BinaryCrossEntropy"
    expected = [[0.44140317, 0.79464897, 0.91628764], [0.83519547, 1.20396963, 2.30257509]]
    np.testing.assert_allclose(loss.eval({x: chances, y: wanted}), expected, rtol=1e-7)
    by = C.binary_cross_entropy(C.sigmoid(x), y).grad({x: [[0.3, -0.4, 1.2]], y: [[0.1, 0.7, -0.5]]}, wrt=[x, y])
    np.testing.assert_allclose(by[x], [[0.47444143, -0.29868681, 1.26851988]], rtol=1e-6)
    np.testing.assert_allclose(by[y], [[-0.2999995, 0.3999991, -1.19999718]], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("lengths", [[1], [1, 1], [1, 2], [3]])
def test_values_and_gradients_of_sequences_have_a_frame_for_each_step(shape, lengths):
    x = C.sequence.input_variable(shape, dtype=DOUBLE, needs_gradient=True)
    data = [np.ones((length, *shape)) for length in lengths]
    for found in (C.exp(x).eval({x: data}), C.exp(x).grad({x: data})):
        assert [each.shape for each in found] == [each.shape for each in data]
        np.testing.assert_allclose(np.concatenate(found), np.full((sum(lengths), *shape), np.e))


def test_a_recurrence_takes_sequences_of_one_number():
    x = C.sequence.input_variable((), dtype=DOUBLE)
    found = C.sequence.past_value(x, initial_state=C.constant(0.5, dtype=DOUBLE)).eval({x: [[3.0], [4.0]]})
    np.testing.assert_allclose(found, [[0.5], [0.5]])


def test_parameters_to_which_no_gradient_flows_are_regularized():
    p, q = (C.parameter(2, init=np.array([0.5, 2.0]), dtype=DOUBLE) for _ in range(2))
    r = C.parameter(2, init=1, dtype=DOUBLE)
    x = C.input_variable(2, dtype=DOUBLE)
    loss = C.squared_error(C.greater(p, x) + q * C.stop_gradient(r), x)
    rate = C.learning_parameter_schedule(0.1, 1)
    plain = C.sgd([p, q, r], rate, l2_regularization_weight=0.1)
    adam = C.adam([p, q, r], rate, C.momentum_schedule(0.9), l2_regularization_weight=0.1)
    expected = {
        plain: ([0.49005, 1.9602], [0.6704181, 0.9690516], [0.9801, 0.9801]),
        adam: ([0.29131385, 1.76037941], [0.86931161, 0.77018944], [0.78054172, 0.78054172]),
    }
    for learner, wanted in expected.items():
        trainer = C.Trainer(loss, (loss, None), [learner])
        for _ in range(2):
            trainer.train_minibatch({x: np.array([[1.0, 0.2]])})
        np.testing.assert_allclose([p.value, q.value, r.value], wanted, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 1, 1)])
def test_batch_normalization_takes_all_numbers_of_the_scale_whatever_its_shape(shape):
    data = np.random.RandomState(1).randn(3, 2, 2, 3)
    x = C.input_variable((2, 2, 3), dtype=DOUBLE)
    scale, bias, mean, variance = (
        C.constant(np.reshape(each, shape), dtype=DOUBLE) for each in ([1.0, 2.0], [3.0, 4.0], [0.1, 1.0], [0.2, 2.0])
    )
    count = C.constant(7, dtype=DOUBLE)
    found = C.batch_normalization(
        x, scale, bias, mean, variance, True, epsilon=0.01, use_cudnn_engine=False, running_count=count
    ).eval({x: data})
    expected = [6.326394, 1.44682, 1.629217, 0.440373, 4.670256, -2.240587, 5.050699, 1.515481]
    np.testing.assert_allclose(np.ravel(found)[:8], expected, atol=1e-6)


def test_a_convolution_reads_a_delay_of_what_was_computed():
    x = C.sequence.input_variable((2, 3, 3))
    kernel = C.parameter((1, 2, 2, 2), init=1)
    delayed = C.sequence.past_value(C.relu(x))
    found = C.convolution(kernel, delayed, auto_padding=[False, False, False]).eval({x: [np.ones((2, 2, 3, 3))]})[0]
    np.testing.assert_array_equal(found, np.stack([np.zeros((1, 2, 2)), np.full((1, 2, 2), 8)]))


def test_limits_of_clip_are_numbers_of_single_precision():
    x = C.input_variable(2, dtype=DOUBLE)
    found = C.clip(x, -0.3, 0.4).eval({x: [[-1.0, 1.0]]})
    np.testing.assert_array_equal(found, np.array([[-0.3, 0.4]], np.float32))
    limit = C.constant(0.4, dtype=DOUBLE)
    np.testing.assert_array_equal(C.clip(x, -0.3, limit).eval({x: [[-1.0, 1.0]]})[0, 1], 0.4)


def test_a_slice_with_strides_reads_a_recurrence_whose_width_its_loop_tells():
    x = C.sequence.input_variable(2)
    before = C.placeholder(shape=(4,), dynamic_axes=x.dynamic_axes)
    late = C.sequence.past_value(before)
    fresh = C.times(x, C.parameter((2, 4), init=np.arange(8).reshape(2, 4))) + 0.5 * late
    h = fresh.replace_placeholders({before: fresh.output})
    found = C.slice(h, 0, 0, 4, 2).eval({x: [[[1.0, 0.0], [0.0, 1.0]]]})
    np.testing.assert_array_equal(found, [[[0, 2], [4, 7]]])
