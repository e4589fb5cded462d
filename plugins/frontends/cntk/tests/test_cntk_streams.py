"""Seeds and random numbers beside the original 2.7, which printed the figures here; and what data may look like."""

from __future__ import annotations

from pathlib import Path

import cntk as C
import cntk.random as drawn
import numpy as np
import pytest
from cntk_builder_python import Graph
from scipy.sparse import csr_matrix

from cntk_core.api.recipes import ModelFiles, PluginManager


def seed_of_dropout() -> int:
    return C.dropout(0.5).root_function.attributes["rngSeed"]


def test_seeds_that_nobody_gives() -> None:
    C.cntk_py.reset_random_seed(789)
    assert [seed_of_dropout() for _ in range(3)] == [789, 790, 791]
    C.cntk_py.set_fixed_random_seed(456)
    assert [seed_of_dropout() for _ in range(2)] == [456, 456]
    C.cntk_py.reset_random_seed(5)
    assert seed_of_dropout() == 5


def test_a_parameter_takes_its_seed_when_it_is_made() -> None:
    C.cntk_py.reset_random_seed(1)
    first, second = (C.parameter(3, init=C.glorot_uniform()) for _ in range(2))
    np.testing.assert_allclose(second.value, [0.988624, 0.85789984, 0.69521534], rtol=1e-6)
    np.testing.assert_allclose(first.value, [-0.8968154, -0.89061725, -0.1194986], rtol=1e-6)
    C.cntk_py.reset_random_seed(1)
    late = C.parameter(-1, init=C.glorot_uniform())
    C.parameter(3, init=C.glorot_uniform())
    assert seed_of_dropout() == 3
    C.times(C.input_variable(3), late, output_rank=0)
    np.testing.assert_allclose(late.value, first.value)


def test_layers_take_seeds_in_the_order_in_which_they_are_made() -> None:
    C.cntk_py.reset_random_seed(0)
    layers = C.layers.Sequential([C.layers.Embedding(6), C.layers.Recurrence(C.layers.LSTM(4)), C.layers.Dense(3)])
    learned = {each.name: each for each in layers(C.sequence.input_variable(9)).parameters if each.name in "EH"}
    for name, seed in (("E", 0), ("H", 2)):
        there = C.parameter(learned[name].shape, init=C.glorot_uniform(seed=seed))
        np.testing.assert_array_equal(learned[name].value, there.value)


def test_an_initializer_needs_a_scale() -> None:
    with pytest.raises(ValueError, match="CreateInitializer: the scale of 'glorot_uniform' has to be more than 0"):
        C.glorot_uniform(-1)


@pytest.mark.parametrize(
    ("kind", "arguments", "first", "then"),
    [
        (drawn.uniform, (0.0, 1.0), [0.6730649, 0.03849461, 0.22528856], [0.67593217, 0.09036689, 0.09634243]),
        (drawn.normal, (0.0, 1.0), [-0.7843465, -0.06774167, -0.38317904], [-0.05048728, 0.09305283, 0.13984175]),
        (drawn.gumbel, (0.0, 1.0), [-0.11153566, 3.2376738, 1.3654544], [-0.11938396, 2.356894, 2.2896216]),
        (drawn.bernoulli, (0.5,), [1, 0, 0], [1, 0, 0]),
    ],
)
def test_random_numbers_go_on(kind, arguments, first, then, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    numbers = kind((3,), np.float32, *arguments, seed=5)
    np.testing.assert_allclose(numbers.eval(), first, rtol=2e-6)
    numbers.save(str(tmp_path / "numbers.model"))
    again = C.load_model(str(tmp_path / "numbers.model"))
    np.testing.assert_allclose(numbers.eval(), then, rtol=2e-6)
    np.testing.assert_allclose(again.eval(), then, rtol=2e-6)
    numbers.restore(str(tmp_path / "numbers.model"))
    np.testing.assert_allclose(numbers.eval(), then, rtol=2e-6)


def test_random_numbers_like_an_operand() -> None:
    x = C.input_variable((2,))
    found = drawn.uniform_like(x, seed=5).eval({x: np.zeros((2, 2), np.float32)})
    np.testing.assert_allclose(found, [[0.6730649, 0.03849461], [0.22528856, 0.67593217]], rtol=1e-6)


def test_sparse_samples_of_several_axes() -> None:
    x = C.input_variable((2, 3), is_sparse=True)
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    samples = np.array([[[1, 0, 0], [0, 2, 0]], [[0, 0, 3], [4, 0, 0]]], np.float32)
    product = C.times(x, C.constant(w))
    np.testing.assert_allclose(product.eval({x: [csr_matrix(each) for each in samples]}), samples @ w)
    view = C.NDArrayView.from_csr(csr_matrix(samples.reshape(4, 3)), shape=(2, 2, 3))
    np.testing.assert_allclose(product.eval({x: view}), samples @ w)


def test_gradients_by_sparse_inputs() -> None:
    x = C.input_variable(3, is_sparse=True, needs_gradient=True)
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = C.times(x, C.constant(w)).grad({x: csr_matrix(np.eye(3, dtype=np.float32))})
    np.testing.assert_allclose(found, np.tile(w.sum(1), (3, 1)))


def test_an_array_without_axes_is_no_sample() -> None:
    x = C.input_variable((1,))
    with pytest.raises(ValueError, match=r"a value of the shape \[\] does not fit the variable"):
        (x + x).eval({x: [np.asarray(2)]})
    assert (x + x).eval({x: [2]}).tolist() == [[4]]


def test_models_of_cntk_1(tmp_path: Path) -> None:
    x = C.input_variable((2,), name="x")
    f = C.softmax(C.times(x, C.parameter((2, 3), init=C.glorot_uniform(seed=1))))
    C.debugging.save_as_legacy_model(f, str(tmp_path / "old.dnn"))
    again = C.Function.load(str(tmp_path / "old.dnn"))
    data = np.array([[1, -2]], np.float32)
    np.testing.assert_allclose(again.eval([data]), f.eval([data]), rtol=1e-6)


def test_outputs_of_a_model_of_cntk_1_are_what_nobody_reads_or_what_is_marked(tmp_path: Path) -> None:
    graph = Graph()
    x, y = graph.input("x", 2), graph.input("y", 2)
    known = graph.apply("Mean", x).named("m")
    graph.criterion(graph.apply("SquareError", y, graph.apply("Minus", x, known)), "loss")
    graph.apply("Tanh", x).named("alone")
    network = graph.finish()
    known.node.value = np.array([1, 2], np.float32)
    ModelFiles(PluginManager().registry).save(network, tmp_path / "old.dnn", "CNTK-1")
    found = C.load_model(str(tmp_path / "old.dnn"))
    assert [each.name for each in found.outputs] == ["alone", "loss", "m"]
    assert C.combine([found.outputs[2]]).eval().tolist() == [1, 2]


def test_a_clone_whose_substitute_reads_the_inputs_that_are_copied() -> None:
    x, y = C.sequence.input_variable(2, name="x"), C.sequence.input_variable(2, name="y")
    cloned = (x + y).clone("share", {x: y * 2})
    assert [each.name for each in cloned.arguments] == ["y"]
    data = [np.ones((2, 2), np.float32)]
    np.testing.assert_array_equal(cloned.eval({cloned.arguments[0]: data})[0], np.full((2, 2), 3))


def test_products_summed_over_steps() -> None:
    a, b = C.sequence.input_variable(1), C.sequence.input_variable(3)
    f = C.times(a, b, infer_input_rank_to_map=C.TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = f.eval({a: [np.ones((2, 1), np.float32)], b: [values]})
    np.testing.assert_array_equal(found, [[values.sum(0)]])


class _ScaledBySample(C.ops.functions.UserFunction):
    def __init__(self, steps: object, scale: object, name: str = "scaled") -> None:
        super().__init__([steps, scale], name=name)

    def infer_outputs(self) -> list[object]:
        steps, scale = self.inputs
        return [
            C.output_variable(steps.shape, steps.dtype, steps.dynamic_axes),
            C.output_variable(steps.shape, steps.dtype, scale.dynamic_axes),
        ]

    def forward(self, arguments: object, outputs: object, device: object = None, outputs_to_retain: object = None):  # type: ignore[no-untyped-def]
        steps, scale = arguments
        outputs[self.outputs[0]] = [one * each for one, each in zip(steps, scale, strict=True)]
        outputs[self.outputs[1]] = np.stack([one.sum(0) * each for one, each in zip(steps, scale, strict=True)])
        return arguments

    def backward(self, state: object, root_gradients: object, variables: object) -> None:
        steps, scale = state
        by_step, by_sum = (root_gradients[each] for each in self.outputs)
        arriving = [each + total for each, total in zip(by_step, by_sum, strict=True)]
        variables[self.inputs[0]] = [one * each for one, each in zip(arriving, scale, strict=True)]
        variables[self.inputs[1]] = np.stack([(one * each).sum(0) for one, each in zip(arriving, steps, strict=True)])


def test_user_functions_of_sequences_and_samples() -> None:
    s, x = C.sequence.input_variable(2, needs_gradient=True), C.input_variable(2, needs_gradient=True)
    f = C.user_function(_ScaledBySample(s, x))
    steps = [np.arange(6, dtype=np.float32).reshape(3, 2), np.ones((1, 2), np.float32)]
    scale = np.array([[2, 3], [4, 5]], np.float32)
    found = f.eval({s: steps, x: scale})
    for one, given, each in zip(found[f.outputs[0]], steps, scale, strict=True):
        np.testing.assert_array_equal(one, given * each)
    np.testing.assert_array_equal(found[f.outputs[1]], [[12, 27], [4, 5]])
    total = C.sequence.reduce_sum(f.outputs[0]) + f.outputs[1]
    grads = total.grad({s: steps, x: scale}, wrt=[s, x])
    np.testing.assert_array_equal(grads[x], [[12, 18], [2, 2]])
    np.testing.assert_array_equal(grads[s][0], np.tile([[4, 6]], (3, 1)))


def test_a_shape_for_what_data_bring() -> None:
    x = C.input_variable((C.FreeDimension, 2, 3), needs_gradient=True)
    f = C.reshape(x, 4, 0, 2)
    assert f.shape == (4, 3)
    data = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    np.testing.assert_array_equal(f.eval({x: data})[0], data.reshape(4, 3))
    np.testing.assert_array_equal((f * f).grad({x: data}), 2 * data)
    with pytest.raises(ValueError, match=r"a value of the shape \[3 x 2 x 3\] cannot become \[4 x 3\]"):
        f.eval({x: np.zeros((1, 3, 2, 3), np.float32)})
