"""What functions, layers and variables say about wrong arguments; and that the last right ones are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.default_options import get_default_override
from cntk.internal import sanitize_function, sanitize_input, variable_of
from cntk.internal.sanitize import sanitize_dynamic_axes, sanitize_random_args, sanitize_shape
from cntk.layers.blocks import UntestedBranchError
from cntk.layers.typing import Sequence, Signature, Tensor

Mistakes = Mapping[str, tuple[Callable[[], Any], str]]


def check(mistakes: Mistakes, kind: type[Exception]) -> None:
    for name, (call, message) in mistakes.items():
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == message, name


def x(*shape: int) -> Any:
    return C.input_variable(shape, name="x")


def test_arguments_of_operations():
    check(
        {
            "dropout": (lambda: C.dropout(x(2), 1.0), "dropout_rate must be in the interval [0,1)"),
            "less than no dropout": (lambda: C.dropout(x(2), -0.1), "dropout_rate must be in the interval [0,1)"),
            "combine": (lambda: C.combine([]), "there is nothing to combine"),
            "splice": (lambda: C.splice(), "there is nothing to splice"),
            "list": (
                lambda: C.plus([x(2), x(2)], 1),
                "a list of variables is no operand; combine() or splice() them",
            ),
            "pad": (lambda: C.pad(x(2), [(1, 2, 3)]), "padding pattern should be a list of pairs"),
            "no pair": (lambda: C.pad(x(2), [1]), "padding pattern should be a list of pairs"),
            "permutation": (lambda: C.transpose(x(2, 3), (0, 0)), "(0, 0) is no permutation of 2 axes"),
            "epsilon": (lambda: C.mean_variance_normalization(x(3), -1e-9), "epsilon must be greater than 0"),
            "recurrent": (
                lambda: C.optimized_rnnstack(C.sequence.input_variable(2), C.parameter((9,)), 2, 1, recurrent_op="rnn"),
                'unsupported recurrent_op value "rnn"',
            ),
            "shift": (
                lambda: C.losses.cosine_distance_with_negative_samples(x(2), x(2), 0, 1),
                "shift and num_negative_samples have to be positive",
            ),
            "samples": (
                lambda: C.losses.cosine_distance_with_negative_samples(x(2), x(2), 1, 0),
                "shift and num_negative_samples have to be positive",
            ),
            "parameter": (
                lambda: C.parameter(init=C.glorot_uniform()),
                "a parameter with an initializer needs a shape",
            ),
            "first value": (
                lambda: C.parameter((2,), init="nine"),
                "a first value is a number, an array or an initializer, not 'nine'",
            ),
            "depth": (
                lambda: C.depth_to_space(x(6, 2, 2), 2),
                f"depth_to_space: the channels of {x(6, 2, 2)} do not fill blocks of 2 x 2",
            ),
            "no image": (
                lambda: C.depth_to_space(x(4, 2), 2),
                f"depth_to_space: the channels of {x(4, 2)} do not fill blocks of 2 x 2",
            ),
            "height": (
                lambda: C.space_to_depth(x(1, 3, 2), 2),
                f"space_to_depth: blocks of 2 x 2 do not fill {x(1, 3, 2)}",
            ),
            "width": (
                lambda: C.space_to_depth(x(1, 2, 3), 2),
                f"space_to_depth: blocks of 2 x 2 do not fill {x(1, 2, 3)}",
            ),
            "slice": (
                lambda: C.sequence.slice(C.sequence.input_variable(1), 2, 2),
                "there is no step from 2 to 2",
            ),
            "slice back": (
                lambda: C.sequence.slice(C.sequence.input_variable(1), -1, -2),
                "there is no step from -1 to -2",
            ),
            "no axes": (
                lambda: C.reduce_sum(x(2), []),
                "a reduction needs an axis at least; None is all axes of a sample",
            ),
            "random": (lambda: sanitize_random_args(None, np.float32), "random numbers need a shape"),
            "shape": (lambda: sanitize_shape((2, 3.5)), "a shape has whole numbers, not (2, 3.5)"),
            "axes": (lambda: sanitize_dynamic_axes([C.Axis("t"), C.Axis("t")]), "an axis is named twice"),
            "pair": (
                lambda: C.internal.sanitize.sanitize_2d_number((1, 2, 3)),
                "expected one number or two, not (1, 2, 3)",
            ),
            "no index": (
                lambda: C.Axis.default_batch_axis().static_axis_index(),
                "the axis 'defaultBatchAxis' is no static axis, so it has no index",
            ),
        },
        ValueError,
    )


def test_operands_and_axes_that_there_are_not():
    whole = "Input('x', [#], [2 x 3])"
    check(
        {
            "operand": (
                lambda: C.plus(x(2), "two"),
                "an operand is a Variable, a Function, a number or an array, not str",
            ),
            "objects": (
                lambda: C.plus(x(2), [None]),
                "an operand is a Variable, a Function, a number or an array, not list",
            ),
            "reduction": (
                lambda: C.argmax(x(2, 3), axis=2),
                f"ReduceElements: {whole} has 2 axes, so there is no axis 2",
            ),
            "place": (
                lambda: C.expand_dims(x(2, 3), 2),
                "expand_dims: Placeholder('x', [#], [2 x 3]) has 2 axes, so there is no place 2",
            ),
            "cut": (
                lambda: C.flatten(x(2, 3), 3),
                "flatten: Input('x', [#], [2 x 3]) has 2 axes, so it cannot be cut at the axis 3",
            ),
            "gradient": (
                lambda: C.abs(C.parameter(2)).grad({}, wrt=[C.input_variable((2, 3), needs_gradient=True, name="x")]),
                f"the function does not depend on {whole}, so there is no gradient by it",
            ),
        },
        ValueError,
    )
    with pytest.raises(ValueError, match="has 2 axes, so there is no axis 5"):
        C.reduce_sum(x(2, 3), axis=(0, 5))
    with pytest.raises(ValueError, match=r"its inputs have numbers of several types: .* of float32, .* of float64"):
        C.plus(x(2), C.input_variable(2, np.float64))
    mixed = C.plus(x(2), C.constant(np.ones(2)))
    with pytest.raises(ValueError, match="its inputs have numbers of several types"):
        mixed.eval(np.ones((1, 2), np.float32))


def test_types_of_arguments():
    check(
        {
            "plus": (lambda: C.plus(), "plus() needs at least one operand"),
            "transpose": (
                lambda: C.transpose(x(2, 3), 1),
                "transpose expects a permutation; to swap two axes use swapaxes",
            ),
            "composite": (lambda: C.as_composite(x(2)), "expected a primitive function, not Variable"),
            "variable": (lambda: variable_of(3), "expected a Variable or a Function, not int"),
            "function": (lambda: sanitize_function(3), "expected a Function or a Variable, not int"),
            "axis": (lambda: C.reduce_sum(x(2), "0"), "an axis is a number or of the type Axis, not '0'"),
            "axes": (
                lambda: C.input_variable(2, dynamic_axes=["t"]),
                "dynamic axes have to be of the type Axis, not ('t',)",
            ),
            "user": (lambda: C.user_function(3), "user_function() takes a UserFunction"),
            "not a parameter": (lambda: x(2).as_parameter(), "cannot be converted into a Parameter"),
            "not a constant": (lambda: x(2).as_constant(), "cannot be converted into a Constant"),
            "override": (
                lambda: get_default_override(None, a=1, b=2),
                "get_default_override() expects one keyword argument",
            ),
        },
        TypeError,
    )


def test_the_last_right_arguments():
    assert C.dropout(x(2), 0.0).shape == (2,)
    assert C.transpose(x(2, 3), (-1, 0)).shape == (3, 2)
    assert C.mean_variance_normalization(x(3), 0.0).shape == (3,)
    assert C.losses.cosine_distance_with_negative_samples(x(2), x(2), 1, 1).shape == (2,)
    assert C.depth_to_space(x(8, 2, 2), 2).shape == (2, 4, 4)
    assert C.space_to_depth(x(2, 4, 6), 2).shape == (8, 2, 3)
    assert C.layers.Dropout(keep_prob=0.25)(x(2)).shape == (2,)
    for kind in (np.float32, np.int64, np.uint8, bool):
        assert sanitize_input(np.ones(2, kind)).shape == (2,)
    for begin, end in ((0, 1), (-2, -1), (-1, 0), (0, -1), (1, 0)):
        assert C.sequence.slice(C.sequence.input_variable(1), begin, end).shape == (1,)
    assert C.parameter((2,), init=1).as_parameter().shape == (2,)
    assert C.constant(1.0).as_constant().shape == ()


def test_a_vector_is_normalized_over_all_of_it():
    """The numbers are the original's."""
    value = C.mean_variance_normalization(x(3)).eval(np.array([[1, 2, 4]], np.float32))
    np.testing.assert_allclose(value, [[-1.0690365, -0.26725924, 1.3362954]], rtol=1e-6)


def test_names_and_records():
    named = C.abs(x(2), name="first")
    several = C.combine([C.abs(x(2)), C.exp(x(2))])
    record = C.Record(a=1)
    check(
        {
            "variable": (lambda: setattr(x(2), "name", "y"), "'x' has a name, which cannot be changed"),
            "function": (lambda: setattr(named, "name", "y"), "'first' has a name, which cannot be changed"),
            "twice": (
                lambda: (C.abs(named, name="first") + 1).find_by_name("first"),
                "found 2 primitives with the name 'first'; use find_all_with_name",
            ),
        },
        ValueError,
    )
    check(
        {
            "attribute": (lambda: named.lost, "'Variable' object has no attribute 'lost'"),
            "of several": (lambda: several.lost, "'Function' object with 2 outputs has no attribute 'lost'"),
            "module": (lambda: C.lost, "module 'cntk' has no attribute 'lost'"),
            "ops": (lambda: C.ops.lost, "module 'cntk.ops' has no attribute 'lost'"),
            "functions": (lambda: C.ops.functions.lost, "module 'cntk.ops.functions' has no attribute 'lost'"),
            "record": (lambda: record.b, "record has no attribute 'b'"),
            "constant record": (lambda: setattr(record, "a", 2), "record is immutable; use updated_with(a=...)"),
            "unknown": (lambda: record.updated_with(b=2), "record has no attribute 'b'"),
        },
        AttributeError,
    )
    assert record.updated_with(a=2) == {"a": 2}
    assert named.find_by_name("first") is not None
    assert named.find_by_name("second") is None


def test_indices():
    several = C.combine([C.abs(x(2)), C.exp(x(2))])
    with pytest.raises(KeyError) as caught:
        several[2]
    assert caught.value.args == ("a function with 2 outputs has no output 2",)
    check(
        {
            "list": (
                lambda: x(4)[[0, 1.5]],
                "an element of a list of indices has to be a whole number, not 1.5",
            ),
            "index": (lambda: x(4)[1.5], "an index has to be a whole number, a range or a list, not 1.5"),
        },
        IndexError,
    )
    value = np.arange(4, dtype=np.float32)
    for index, found in ((1, [1]), ([0, 2], [0, 2]), ([3], [3]), (slice(1, 3), [1, 2])):
        part = x(4)
        np.testing.assert_array_equal(part[index].eval({part: value[None]})[0], found)


def test_placeholders():
    one, other = C.placeholder(name="one"), C.placeholder(name="other")
    check(
        {
            "two": (lambda: (one + other).replace_placeholder(x(2)), "the function has 2 placeholders, not one"),
            "none": (lambda: C.abs(x(2)).replace_placeholder(x(2)), "the function has 0 placeholders, not one"),
            "no placeholder": (
                lambda: (x(2) + one).replace_placeholders({C.input_variable(2, name="y"): x(2)}),
                f"{C.input_variable(2, name='y')} is no placeholder, and cannot be replaced",
            ),
        },
        ValueError,
    )
    check({"declared": (lambda: C.abs(one).declare_args(Tensor[2], Tensor[3]), "expected 1 inputs, got 2")}, TypeError)


def test_layers():
    check(
        {
            "Dense": (
                lambda: C.layers.Dense(2, input_rank=1, map_rank=1),
                "Dense: input_rank and map_rank cannot be specified at the same time.",
            ),
            "no init": (lambda: C.layers.Dense(2, init=None), "init parameter cannot be None"),
            "Embedding": (lambda: C.layers.Embedding(), "Embedding: output shape must be specified"),
            "Embedding of weights": (
                lambda: C.layers.Embedding(2, weights=np.ones((3, 2))),
                "Embedding: output shape must not be specified when weights are given",
            ),
            "Embedding of both": (
                lambda: C.layers.Embedding(weights=np.ones((3, 2)), init=C.uniform(1)),
                "Embedding: init and weights options are mutually exclusive",
            ),
            "Dropout": (
                lambda: C.layers.Dropout(keep_prob=1.0),
                "Dropout: keep_prob must be in the interval [0,1)",
            ),
            "less than nothing": (
                lambda: C.layers.Dropout(keep_prob=-0.5),
                "Dropout: keep_prob must be in the interval [0,1)",
            ),
            "LSTM": (lambda: C.layers.LSTM((2, 3)), "LSTM: shape and cell_shape must be vectors (rank-1 tensors)"),
            "GRU": (
                lambda: C.layers.GRU(2, cell_shape=(2, 3)),
                "GRU: shape and cell_shape must be vectors (rank-1 tensors)",
            ),
            "Convolution1D": (
                lambda: C.layers.Convolution1D((3, 3), 1),
                "Convolution1D: filter_shape must be a scalar or a 1D tuple",
            ),
            "For": (lambda: C.layers.For(range(2), C.layers.Dense(2)), "constructor must be a Python function/lambda"),
            "span": (
                lambda: C.layers.AttentionModel(2, attention_span=3),
                "attention_span and attention_axis come together: attention_axis is missing",
            ),
            "axis": (
                lambda: C.layers.AttentionModel(2, attention_axis=-1),
                "attention_span and attention_axis come together: attention_span is missing",
            ),
            "no span": (
                lambda: C.layers.AttentionModel(2, attention_span=0, attention_axis=-1),
                "attention_span is a positive number, not 0",
            ),
        },
        ValueError,
    )
    check(
        {
            "reduction": (
                lambda: C.layers.Convolution(3, 1, reduction_rank=2),
                "Convolution: reduction_rank must be 0 or 1",
            ),
            "kernels": (
                lambda: C.layers.Convolution(3, 1, sharing=False),
                "Convolution: transpose_weight and kernels that are not shared are not there",
            ),
            "weight": (
                lambda: C.layers.Convolution(3, 1, transpose_weight=True),
                "Convolution: transpose_weight and kernels that are not shared are not there",
            ),
            "transposed": (
                lambda: C.layers.ConvolutionTranspose(3, 1, reduction_rank=0),
                "ConvolutionTranspose: reduction_rank must be 1, and kernels shared",
            ),
            "transposed kernels": (
                lambda: C.layers.ConvolutionTranspose(3, 1, sharing=False),
                "ConvolutionTranspose: reduction_rank must be 1, and kernels shared",
            ),
            "rank": (
                lambda: C.layers.BatchNormalization(map_rank=2),
                "BatchNormalization: map_rank can only be 1 or None",
            ),
            "untested": (lambda: UntestedBranchError("of mine"), "Untested code branch: of mine"),
        },
        NotImplementedError,
    )
    assert C.layers.ConvolutionTranspose2D.__name__ == "ConvolutionTranspose2D"
    assert C.layers.ConvolutionTranspose2D.__doc__.startswith("A transposed convolution along 2 axes; ")


def test_steps_of_recurrences():
    outside = C.input_variable(2, name="outside")

    def reads_more(state, step):
        return state + step + outside

    def makes_parameters(state, step):
        return state + step + C.parameter((2,))

    def three(a, b, c):
        return a + b + c

    check(
        {
            "reads": (
                lambda: C.layers.Recurrence(reads_more),
                "Recurrence Python step function makes use of additional CNTK variables or placeholders: "
                "it may read nothing but its arguments ['state', 'step']",
            ),
            "makes": (
                lambda: C.layers.Recurrence(makes_parameters),
                "Parameter cannot be created inside Recurrence Python step function.",
            ),
            "arguments": (
                lambda: C.layers.RecurrenceFrom(three),
                "RecurrenceFrom(): step_function has 1 states, but the arguments a, b, c",
            ),
        },
        TypeError,
    )


def test_types_of_functions():
    def annotated(a: int) -> Any:
        return a

    check(
        {
            "twice": (
                lambda: Signature(Tensor[2])(annotated),
                "@Signature cannot be applied to functions that already have annotations",
            ),
        },
        ValueError,
    )
    check(
        {
            "number": (
                lambda: Signature(Tensor[2], Tensor[2])(lambda a: a),
                "2 annotations provided for function to be decorated, but function has 1 parameters",
            ),
            "nested": (lambda: Sequence[Sequence[Tensor[2]]], "sequences over sequences are currently not supported"),
            "nothing": (lambda: C.Function(lambda a: None), "CNTK Function '<lambda>' must return a value"),
            "unused": (
                lambda: C.Function(lambda a, b: C.abs(a)),
                "CNTK Function '<lambda>' has 1 unused arguments (b), which is currently not supported",
            ),
            "type": (
                lambda: C.abs(C.placeholder()).declare_args(2.5),
                "a type is a number, a shape or Tensor[...] and the like, not 2.5",
            ),
        },
        TypeError,
    )
