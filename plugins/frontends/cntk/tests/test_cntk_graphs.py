"""Functions as graphs: names, blocks, attributes, arguments, copies, gradients, files, networks of the core."""

from __future__ import annotations

from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.layers import Dense
from cntk.layers.typing import Sequence, Tensor

from cntk_core.api import UsageError

X = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)


def test_a_function_gets_a_name_once() -> None:
    f = C.abs(C.input_variable(2))
    assert (f.name, f.output.name) == ("", "")
    f.root_function.name = "size"
    assert (f.name, f.output.name) == ("size", "size")
    with pytest.raises(ValueError, match=r"^'size' has a name, which cannot be changed$"):
        f.name = "length"


def test_blocks_are_opened() -> None:
    x = C.input_variable(2, name="x")
    f = Dense(3)(x)
    root = f.root_function
    assert (f.is_composite, f.is_primitive, f.is_block) == (True, False, False)
    assert (root.is_composite, root.is_primitive, root.is_block) == (False, True, True)
    assert (root.op_name, f.op_name) == ("Dense", "CompositeFunctionOpName")
    assert root.block_root.root_function.op_name == "Plus"
    ((inner, outer),) = [pair for pair in root.block_arguments_mapping if pair[0].is_placeholder]
    assert (outer.uid, inner.is_placeholder) == (x.uid, True)
    assert f.attributes == {}
    for wrong in ("block_root", "block_arguments_mapping"):
        with pytest.raises(ValueError, match=r"^Abs is no block$"):
            getattr(C.abs(x), wrong)


def test_attributes_are_those_of_files() -> None:
    x = C.input_variable((2, 3))
    told = C.slice(x, 0, 1, 2).root_function.attributes
    assert told == {"axis": ("ordered", "static", -1), "beginIndex": 1, "endIndex": 2, "sliceStrides": 1}
    assert C.reshape(x, (6,)).attributes["newShape"] == (6,)
    pad = C.pad(x, [(1, 0), (0, 2)], constant_value=2.5).attributes
    assert (pad["paddingHead"], pad["paddingFoot"], pad["paddingConstantValue"]) == ([0, 1], [2, 0], 2.5)
    steps = C.to_sequence(x).attributes["newDynamicAxes"]
    assert [each[:2] for each in steps] == [("ordered", "dynamic"), ("unordered", "dynamic")]
    assert steps[1][2] == "defaultBatchAxis"


def test_outputs_and_what_they_have() -> None:
    x = C.input_variable(2, name="x")
    both = C.combine([x + 1, C.reduce_sum(x)])
    with pytest.raises(ValueError, match=r"^the function has 2 outputs, not one$"):
        both.output  # noqa: B018
    assert [each.shape for each in both.outputs] == [(2,), ()]
    assert both[1].shape == ()
    assert (x + 1).shape == (2,)
    assert both.x.uid == x.uid
    with pytest.raises(AttributeError, match=r"^'Function' object with 2 outputs has no attribute 'other'$"):
        both.other  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Variable' object has no attribute 'other'$"):
        (x + 1).other  # noqa: B018


def test_placeholders_are_replaced() -> None:
    x, a, b = C.input_variable(2), C.placeholder(name="a"), C.placeholder(name="b")
    f = a - 2 * b
    with pytest.raises(ValueError, match=r"^the function has 2 placeholders, not one$"):
        f.replace_placeholder(x)
    f.replace_placeholders({a: x}).replace_placeholder(x)
    np.testing.assert_array_equal(f.eval({x: X}), -X)
    g = C.placeholder(name="a") - C.placeholder(name="b")
    with pytest.raises(TypeError, match=r"^expected 2 inputs, got 1$"):
        g.declare_args(2)
    g.declare_args(2, Tensor[2])
    assert [(each.name, each.shape) for each in g.arguments] == [("a", (2,)), ("b", (2,))]
    h = C.placeholder(name="a") - C.placeholder(name="b")
    h.update_signature(2, b=Sequence[Tensor[2]])
    assert [len(each.dynamic_axes) for each in h.arguments] == [1, 2]
    with pytest.raises(TypeError, match=r"^a type is a number, a shape or Tensor\[...\] and the like, not 'two'$"):
        (C.placeholder() + 1).update_signature("two")


def test_arguments_have_to_be_of_their_type() -> None:
    double = C.Function.with_signature(Tensor[2])(lambda v: v * 2)
    np.testing.assert_array_equal(double(X), 2 * X)
    x = C.input_variable(2)
    np.testing.assert_array_equal(double(x).eval({x: X}), 2 * X)
    for wrong, message in (
        (C.input_variable(3), r"argument v's type .*Tensor\[2\].* is incompatible with the type .*Tensor\[3\].*"),
        (C.input_variable(2, np.float64), r"argument v's type .* is incompatible with the type .*"),
        (C.sequence.input_variable(2), r"argument v's type .* is incompatible with the type .*Sequence.*"),
        (C.placeholder(), r"argument v has a known shape, and cannot be passed a Variable of unknown shape"),
    ):
        with pytest.raises(TypeError, match=f"^{message}$"):
            double(wrong)
    pair = C.Function(lambda v: (v + 1, v * 2))
    first, second = C.combine([x + 1, x * 2])(X)
    np.testing.assert_array_equal(first, X + 1)
    np.testing.assert_array_equal(second, 2 * X)
    assert len(pair(x).outputs) == 2


def test_a_copy_has_inputs_and_parameters_of_its_own_or_not() -> None:
    x, w = C.input_variable(2, name="x"), C.parameter(2, init=3)
    f = x * w
    for how, same, count in (("share", True, 1), ("clone", False, 1), ("freeze", False, 0)):
        copy = f.clone(how)
        assert (copy.arguments[0].uid == x.uid, copy.arguments[0].name) == (False, "x")
        assert len(copy.parameters) == count
        assert any(each.uid == w.uid for each in copy.parameters) is same
        np.testing.assert_array_equal(copy.eval(X), 3 * X)


def test_gradients_flow_to_what_is_asked() -> None:
    x, c = C.input_variable(2, needs_gradient=True), C.input_variable(2)
    w = C.parameter(2, init=[3, 5])
    f = C.element_times(x, w) + c
    data = {x: X, c: X}
    state, _ = f.forward(data, [f.output], [f.output])
    seeds = {f.output: np.ones_like(X)}
    np.testing.assert_array_equal(f.backward(state, seeds, [x])[x], [[3, 5], [3, 5]])
    np.testing.assert_array_equal(f.backward(state, seeds, [w])[w], X.sum(0))
    value = C.Value.create(f.output, np.ones_like(X) * 2)
    np.testing.assert_array_equal(f.backward(state, {f.output: value}, [w])[w], 2 * X.sum(0))
    for wrong, message in (
        (C.input_variable(2, name="o"), r"the function does not depend on Input\('o', \[#\], \[2\]\)"),
        (c, r"Input\('\w+', \[#\], \[2\]\) does not need gradients, so none flow to it; say needs_gradient=True"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            f.backward(state, seeds, [wrong])
    with pytest.raises(
        ValueError, match=r"^Input\('\w+', \[#\], \[2\]\) is no output of the function|no output of the"
    ):
        f.eval(data, outputs=[C.abs(c).output])


def test_gradients_of_a_sequence_and_of_numbers() -> None:
    s = C.sequence.input_variable((), needs_gradient=True)
    total = C.sequence.reduce_sum(C.square(s))
    steps = [np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0], np.float32)]
    found = total.grad({s: steps}, wrt=[s])
    assert [np.ravel(each).tolist() for each in found] == [[2, 4, 6], [8]]
    squares = C.square(s)
    state, _ = squares.forward({s: steps}, [squares.output], [squares.output])
    found = squares.backward(state, {squares.output: [np.array([1, 0, 2]), np.array([3])]}, [s])[s]
    assert [np.ravel(each).tolist() for each in found] == [[2, 0, 12], [24]]


def test_a_file_is_read_of_its_bytes_too(tmp_path: Any) -> None:
    x = C.input_variable(2)
    f = Dense(3, init=C.glorot_uniform(seed=1))(x)
    path = tmp_path / "net.model"
    f.save(str(path))
    again = C.Function.load(path.read_bytes())
    np.testing.assert_array_equal(again.eval(X), f.eval(X))
    other = Dense(2)(x)
    with pytest.raises(ValueError, match=r"net\.model' has other parameters than the function$"):
        other.restore(str(path))
    with pytest.raises(ValueError, match="never"):
        C.load_model(str(tmp_path / "never"))


def test_values_of_parameters_have_their_shape() -> None:
    w = C.parameter((2, 3), init=1, name="w")
    w.value = 4
    assert w.value.tolist() == [[4.0] * 3] * 2
    with pytest.raises(
        ValueError, match=r"^a value of the shape \(3, 2\) does not fit Parameter\('w', \[\], \[2 x 3\]\)"
    ):
        w.value = np.zeros((3, 2))
    open_ = C.parameter((C.InferredDimension, 3), name="open")
    for use in (lambda: open_.value, lambda: setattr(open_, "value", np.zeros((2, 3)))):
        with pytest.raises(ValueError, match=r"Parameter\('open', \[\], \[\? x 3\]\)"):
            use()
    x = C.input_variable(2)
    f = C.times(x, open_)
    assert open_.shape == (2, 3)
    constant = C.constant([1, 2])
    g = x * constant
    np.testing.assert_array_equal(g.eval({x: X}), X * [1, 2])
    constant.value = [3, 4]
    np.testing.assert_array_equal(g.eval({x: X}), X * [3, 4])
    w.value = np.zeros((2, 3))
    assert f.shape == (3,)


def test_a_network_of_the_core_has_inputs_labels_outputs_and_criteria() -> None:
    x, y = C.input_variable(2, name="x"), C.input_variable(3, name="y")
    z = Dense(3, name="scores")(x)
    loss = C.cross_entropy_with_softmax(z, y, name="ce")
    error = C.classification_error(z, y)
    network, criterion, counted = z._core_network_(C.combine([loss, error]), [C.squared_error(z, y)])
    roots = {role: [node.name for node in nodes] for role, nodes in network.roots.items() if nodes}
    assert roots["feature"] == ["x"]
    assert roots["label"] == ["y"]
    assert roots["output"] == ["scores"]
    assert roots["criterion"] == [criterion.name] == ["ce"]
    assert roots["evaluation"] == [each.name for each in counted]
    assert len(counted) == 2
    alone, only, nothing = z._core_network_(loss)
    assert (only.name, nothing, "evaluation" in alone.roots and bool(alone.roots["evaluation"])) == ("ce", [], False)
    with pytest.raises(UsageError, match=r"^a Function does not say what is minimised"):
        z._core_network_(None)


def test_data_that_do_not_fit_say_which_variable_they_were_for() -> None:
    x = C.input_variable((2, 3), name="x")
    kept = C.input_variable((2,), dynamic_axes=[], name="kept")
    f = C.reduce_sum(x, axis=1) + C.reshape(kept, (2, 1))
    data = np.ones((4, 2, 3), np.float32)
    assert f.eval({x: data, kept: [10, 20]}).tolist() == [[[13], [23]]] * 4
    assert f.eval({x: data[0], kept: [[10, 20]]}).tolist() == [[[13], [23]]]
    for given, message in (
        ({x: data[:, :1].copy(), kept: [1, 2]}, r"a value of the shape \[1 x 3\] does not fit the variable Input\('x'"),
        ({x: data, kept: [1, 2, 3]}, r"a value of the shape \[3\] does not fit the variable Input\('kept'"),
        ({x: [], kept: [1, 2]}, r"no samples are given for Input\('x'"),
        ({x: np.array(3.0), kept: [1, 2]}, "does not fit the variable Input.'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            f.eval(given)
