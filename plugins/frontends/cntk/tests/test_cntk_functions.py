"""Functions: calling, composing, cloning, blocks, evaluation, gradients, files."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import cntk as C
import numpy as np
import pytest
from cntk.layers import GRU, LSTM, Dense, Recurrence, RNNStep, Sequential

X = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)


def test_importing_the_package_imports_little() -> None:
    code = "import sys, cntk; print(sorted(each for each in sys.modules if each.split('.')[0] in ('numpy', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_name_is_there() -> None:
    missing = [name for name in dir(C) if not name.startswith("_") and getattr(C, name, None) is None]
    assert missing == []


def test_values_gradients_and_shapes() -> None:
    x = C.input_variable(2, needs_gradient=True, name="x")
    w = C.parameter((2, 3), init=np.arange(6, dtype=np.float32).reshape(2, 3), name="w")
    z = C.reduce_sum(C.tanh(x @ w), axis=0)
    expected = np.tanh(X @ w.value)
    np.testing.assert_allclose(z.eval({x: X}), expected.sum(1, keepdims=True), rtol=1e-6)
    grads, value = z.grad({x: X}, wrt=[x, w], outputs=[z])
    np.testing.assert_allclose(value, expected.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(grads[x], (1 - expected**2) @ w.value.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grads[w], X.T @ (1 - expected**2), rtol=1e-5, atol=1e-6)
    assert z.shape == (1,)
    assert z.dynamic_axes == (C.Axis.default_batch_axis(),)


def test_forward_keeps_what_backward_needs() -> None:
    x = C.input_variable(2, needs_gradient=True)
    y = C.square(x)
    state, values = y.forward({x: X}, [y.output], [y.output])
    np.testing.assert_allclose(values[y.output], X * X)
    seeds = np.array([[1.0, 10.0], [0.0, 2.0]], np.float32)
    np.testing.assert_allclose(y.backward(state, {y.output: seeds}, [x])[x], 2 * X * seeds)
    with pytest.raises(ValueError, match="say keep_for_backward in forward"):
        y.backward(None, {y.output: seeds}, [x])


def test_functions_are_composed_called_and_cloned() -> None:
    x, a = C.input_variable(2), C.placeholder(name="a")
    double, shift = C.Function(lambda v: v * 2), C.Function(lambda v: v + 1)
    np.testing.assert_allclose((double >> shift)(x).eval({x: X}), 2 * X + 1)
    w = C.parameter((), init=3)
    scaled = C.element_times(a, w)
    shared, own, frozen = (scaled.clone(how, {a: x}) for how in ("share", "clone", "freeze"))
    w.value = 5
    for each, factor in ((shared, 5), (own, 3), (frozen, 3)):
        np.testing.assert_allclose(each.eval({x: X}), factor * X)
    assert [len(each.parameters) for each in (shared, own, frozen)] == [1, 1, 0]
    assert a.uid in {each.uid for each in scaled.placeholders}
    with pytest.raises(ValueError, match='"2" is not a known clone method'):
        scaled.clone(2)


def test_a_loop_is_closed_late() -> None:
    s, state = C.sequence.input_variable(2), C.placeholder()
    total = s + C.sequence.past_value(state)
    assert total.output.shape == (2,)
    total.replace_placeholders({state: total.output})
    found = total.eval({s: [np.ones((3, 2)), np.ones((1, 2))]})
    assert [each[-1].tolist() for each in found] == [[3.0, 3.0], [1.0, 1.0]]


def test_what_does_not_fit_says_so() -> None:
    x, y = C.input_variable(2, name="x"), C.input_variable(3, name="y")
    with pytest.raises(
        ValueError, match=r"the shapes \[3\] and \[2\] do not fit|the shapes \[2\] and \[3\] do not fit"
    ):
        x + y
    with pytest.raises(ValueError, match=r"values for 1 required arguments Input\('y', \[#\], \[3\]\)"):
        C.splice(x, y).eval({x: X})
    with pytest.raises(ValueError, match=r"a value of the shape \[3\] does not fit the variable Input\('x'"):
        (x + 1).eval({x: [[1, 2, 3]]})
    with pytest.raises(TypeError, match="CNTK Function expected 1 arguments, got 2"):
        Dense(2)(x, y)
    with pytest.raises(ValueError, match="its inputs have numbers of several types"):
        (x + C.parameter(2, dtype=np.float64)).eval({x: X})


def _gates(x: np.ndarray, parts: int) -> list[np.ndarray]:
    return np.split(x, parts, axis=-1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _lstm(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    h = c = np.zeros(w["H"].shape[0])
    found = []
    for step in x:
        i, candidate, f, o = _gates(w["b"] + step @ w["W"] + h @ w["H"], 4)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(candidate)
        h = _sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.array(found)


def _gru(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    h = np.zeros(w["H"].shape[0])
    found = []
    for step in x:
        (z, r, by_input), (hz, hr) = _gates(w["b"] + step @ w["W"], 3), _gates(h @ w["H"], 2)
        keep = _sigmoid(z + hz)
        h = (1 - keep) * np.tanh(by_input + (h * _sigmoid(r + hr)) @ w["H1"]) + keep * h
        found.append(h)
    return np.array(found)


def _rnn(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    h = np.zeros(w["H"].shape[0])
    found = []
    for step in x:
        h = _sigmoid(w["b"] + step @ w["W"] + h @ w["H"])
        found.append(h)
    return np.array(found)


@pytest.mark.parametrize(("cell", "reference"), [(LSTM, _lstm), (GRU, _gru), (RNNStep, _rnn)])
@pytest.mark.parametrize("backwards", [False, True])
def test_recurrences_compute_their_cells(cell: object, reference: object, backwards: bool) -> None:
    s = C.sequence.input_variable(3)
    f = Recurrence(cell(4, init=C.glorot_uniform(seed=3)), go_backwards=backwards)(s)
    data = [np.random.default_rng(1).normal(size=(length, 3)).astype(np.float32) for length in (4, 1, 2)]
    weights = {each.name: each.value.astype(float) for each in f.parameters}
    for found, x in zip(f.eval({s: data}), data, strict=True):
        expected = reference(x[::-1], weights)[::-1] if backwards else reference(x, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_defaults_are_replaced_where_they_are_wanted() -> None:
    x = C.input_variable(2)
    with C.default_options(bias=False), C.default_options_for(Dense, activation=C.relu):
        f = Sequential([Dense(3), Dense(2, activation=None)])(x)
    assert len(f.parameters) == 2
    with pytest.raises(TypeError, match="parameters cannot be created inside a @Function def"):
        C.Function(lambda v: Dense(2)(v))


def test_files_keep_blocks_names_and_loops(tmp_path: object) -> None:
    s = C.sequence.input_variable(3, name="s")
    f = Sequential([Recurrence(LSTM(2, init=C.glorot_uniform(seed=1))), Dense(2, name="out")])(s)
    data = [np.ones((2, 3), np.float32), np.zeros((1, 3), np.float32)]
    f.save(str(tmp_path / "net.model"))
    again = C.load_model(str(tmp_path / "net.model"))
    for left, right in zip(f.eval({s: data}), again.eval({again.arguments[0]: data}), strict=True):
        np.testing.assert_array_equal(left, right)
    assert again.find_by_name("out").op_name == "Dense"
    for each in f.parameters:
        each.value = np.zeros(each.shape)
    f.restore(str(tmp_path / "net.model"))
    np.testing.assert_array_equal(f.eval({s: data})[0], again.eval({again.arguments[0]: data})[0])


def test_parameters_begin_as_in_the_original() -> None:
    uniform = C.parameter((2, 3), init=C.glorot_uniform(seed=5)).value
    normal = C.parameter((2, 3), init=C.normal(0.5, seed=7)).value[0]
    np.testing.assert_allclose(uniform[0], [0.37916622, -1.0111077, -0.60186267], rtol=1e-5)
    np.testing.assert_allclose(normal, [0.48164117, -0.8281922, -0.05767981], rtol=1e-5)


class _Squared(C.ops.functions.UserFunction):
    def __init__(self, arg: object, name: str = "squared") -> None:
        super().__init__([arg], name=name)

    def infer_outputs(self) -> list[object]:
        x = self.inputs[0]
        return [C.output_variable(x.shape, x.dtype, x.dynamic_axes)]

    def forward(self, argument: object, device: object = None, outputs_to_retain: object = None) -> object:
        return argument, argument * argument

    def backward(self, state: object, root_gradients: object) -> object:
        return 2 * state * root_gradients


def test_a_notebook_draws_a_function() -> None:
    x = C.input_variable(4, name="x")
    z = Sequential([Dense(3, name="hidden"), Dense(2, name="scores")])(x)
    texts = re.findall(">([^<>]+)</text>", z._repr_svg_())
    assert texts[:8] == [
        *("x", "InputValue [4 x *]", "hidden", "Dense [3 x *]"),
        *("hidden.W [3 x 4]", "hidden.b [3]", "scores", "Dense [2 x *]"),
    ]
    assert z.eval({x: [[0.0] * 4]}).shape == (1, 2)  # a picture leaves it as it was
    assert Dense(3)._repr_svg_() is None  # what it is applied to is not known yet


def test_user_functions() -> None:
    x = C.input_variable(2, needs_gradient=True)
    f = C.user_function(_Squared(x)) + 1
    grads, value = f.grad({x: X}, outputs=[f])
    np.testing.assert_allclose(value, X * X + 1)
    np.testing.assert_allclose(grads, 2 * X)


def test_the_batch_is_an_axis() -> None:
    x, s = C.input_variable(2), C.sequence.input_variable(2)
    rows = C.unpack_batch(x)
    back = C.to_batch(rows * 2 - C.reduce_sum(rows, axis=0))
    assert (rows.dynamic_axes, back.dynamic_axes) == ((), x.dynamic_axes)
    assert (rows.shape, back.shape) == ((-3, 2), (2,))
    for data in (X, np.arange(6, dtype=np.float32).reshape(3, 2)):
        np.testing.assert_array_equal(rows.eval({x: data}), data)
        np.testing.assert_array_equal(back.eval({x: data}), 2 * data - data.sum(0))
        np.testing.assert_array_equal((x + back).eval({x: data}), 3 * data - data.sum(0))
        np.testing.assert_array_equal(C.eye_like(x, sparse_output=False).eval({x: data}), np.eye(len(data), 2))
    sequences = [np.full((length, 2), number, np.float32) for number, length in enumerate((1, 3, 2))]
    found = C.unpack_batch(C.sequence.last(s)).eval({s: sequences})
    np.testing.assert_array_equal(found, [[0, 0], [1, 1], [2, 2]])
    learned = C.to_batch(C.parameter((3, 2), init=np.arange(6, dtype=np.float32).reshape(3, 2)))
    assert learned.dynamic_axes == x.dynamic_axes
    np.testing.assert_array_equal(learned.eval(), [[0, 1], [2, 3], [4, 5]])


def test_of_a_root_that_is_replaced_the_clone_is_what_replaces_it() -> None:
    x, placeholder = C.input_variable(1), C.placeholder()
    block = C.as_block(C.times(placeholder, C.parameter((1, 1), init=1)) + 2, [(placeholder, x)], "dense")
    more = block + 3
    clone = block.clone("share", {block: more})
    assert clone.root_function.uid == more.root_function.uid
    assert block.root_function.is_primitive
    assert block.root_function.is_block
    np.testing.assert_array_equal(clone.eval({x: [[2.0]]}), [[7.0]])


def test_a_constant_with_an_open_dimension_is_spliced_with_open_ones() -> None:
    x = C.input_variable((C.InferredDimension, C.InferredDimension, 3))
    padding = C.constant(value=0, shape=(3, C.InferredDimension, 3))
    assert [C.splice(*each, axis=0).shape for each in ((padding, x), (x, padding))] == [(-1, -1, 3), (-1, -1, 3)]


def test_rows_whose_sequences_begin_are_sequences() -> None:
    x = C.sequence.input_variable(2)
    last, data = C.sequence.last(x), np.array([[1, 2], [2, 3]])
    np.testing.assert_array_equal(last.eval({x: data}), [[2, 3]])
    np.testing.assert_array_equal(last.eval({x: (data, [True, True])}), [[1, 2], [2, 3]])


def test_what_has_steps_cannot_become_a_sequence_again() -> None:
    with pytest.raises(ValueError, match=r"^to_sequence: Input\('x', \[#, \*\], \[2\]\) has a sequence axis already$"):
        C.to_sequence(C.sequence.input_variable(2, name="x"))


@pytest.mark.slow
def test_loading_an_engine_leaves_the_numbers_of_a_script_as_they_are() -> None:
    code = (
        "import cntk as C, numpy as np; np.random.seed(1); C.plus(1, 2).eval(); import jax;"
        "print(np.random.get_state()[2], np.random.rand())"
    )
    environment = {**os.environ, "CNTK_ENGINE": "xla"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == f"624 {np.random.RandomState(1).rand()}\n"
