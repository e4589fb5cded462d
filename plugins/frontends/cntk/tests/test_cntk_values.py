"""Values, variables, axes and devices: what they hold and say, and what arguments may be."""

from __future__ import annotations

import sys

import cntk as C
import numpy as np
import pytest
from cntk import internal
from cntk.core import NDArrayView, Value, asarray, asvalue
from cntk.internal import sanitize
from scipy.sparse import csc_matrix, csr_matrix

options = sys.modules["cntk.default_options"]  # whose name is that of a function, too
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_view_holds_an_array() -> None:
    view = NDArrayView.from_dense(DATA)
    assert (view.shape, view.dtype, view.is_sparse, view.is_read_only) == ((3, 4), np.float32, False, False)
    assert view.device == C.cpu()
    np.testing.assert_array_equal(view.asarray(), DATA)
    assert not np.shares_memory(view.asarray(), DATA)
    assert np.shares_memory(NDArrayView.from_dense(DATA, borrow=True).asarray(), DATA)
    assert NDArrayView.from_dense(DATA, read_only=True).is_read_only
    zeros = NDArrayView((2, 3), np.float64)
    assert (zeros.dtype, zeros.asarray().tolist()) == (np.float64, [[0.0] * 3] * 2)
    assert NDArrayView(2).dtype == np.float32
    assert not zeros.is_read_only
    assert NDArrayView.from_data([1, 2]).dtype == np.float32
    assert NDArrayView.from_data(np.ones(2)).dtype == np.float64


def test_a_view_has_parts_and_other_shapes() -> None:
    view = NDArrayView.from_dense(DATA, borrow=True)
    part = view.slice_view((1, 1), (2, 2))
    np.testing.assert_array_equal(part.asarray(), DATA[1:3, 1:3])
    assert part.is_read_only
    assert np.shares_memory(part.asarray(), DATA)
    row = view.slice_view((2, 1), (3,), read_only=False)
    assert row.asarray().tolist() == DATA[2, 1:4].tolist()
    assert not row.is_read_only
    np.testing.assert_array_equal(view.as_shape((2, 6)).asarray(), DATA.reshape(2, 6))
    assert NDArrayView.from_dense(DATA, read_only=True).as_shape((12,)).is_read_only


def test_a_view_holds_a_sparse_matrix() -> None:
    matrix = csr_matrix(DATA)
    view = NDArrayView.from_data(matrix)
    assert (view.is_sparse, view.shape) == (True, (3, 4))
    assert view.asarray() is not matrix
    shaped = NDArrayView.from_csr(matrix, shape=(3, 2, 2), borrow=True, read_only=True)
    assert (shaped.shape, shaped.is_read_only) == ((3, 2, 2), True)
    assert shaped.asarray() is matrix
    with pytest.raises(ValueError, match=r"^a sparse view cannot have another shape$"):
        view.as_shape((4, 3))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: NDArrayView.from_dense([1]), TypeError, r"data must be an array of NumPy, not list"),
        (
            lambda: NDArrayView.from_dense(DATA.T, borrow=True), ValueError,
            r"an array whose numbers do not lie one after the other cannot be borrowed",
        ),
        (
            lambda: NDArrayView.from_csr(csc_matrix(DATA)), TypeError,
            r"only CSR is supported as of now\. Please convert your data using 'tocsr\(\)'",
        ),
        (lambda: NDArrayView.from_csr(DATA), TypeError, r"only CSR is supported as of now\. Please .*"),
        (
            lambda: NDArrayView.from_csr(csr_matrix(DATA), shape=(3, 5)), ValueError,
            r"the shape \(3, 5\) does not have the elements of \(3, 4\)",
        ),
        (lambda: Value.one_hot([[1.5]], 3), ValueError, r"supplied index is not a whole number"),
        (lambda: Value.one_hot([[3]], 3), ValueError, r"one-hot numbers have to be below 3"),
        (lambda: Value.one_hot([[-1]], 3), ValueError, r"one-hot numbers have to be below 3"),
    ],
)  # fmt: skip
def test_what_no_value_can_be_made_of(make: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{message}$"):
        make()


def test_sequences_of_any_lengths_are_a_value() -> None:
    s = C.sequence.input_variable(2)
    sequences = [np.full((length, 2), length, np.float32) for length in (2, 1, 3)]
    value = Value.create(s, sequences, seq_starts=[True, False, True], read_only=True)
    assert (value.shape, value.dtype, value.is_sparse, value.is_read_only) == ((3, 3, 2), np.float32, False, True)
    assert value.mask.tolist() == [[2, 1, 0], [1, 0, 0], [2, 1, 1]]
    held = value.asarray()
    assert held[:, :, 0].tolist() == [[2, 2, 0], [1, 0, 0], [3, 3, 3]]
    np.testing.assert_array_equal(value.data.asarray(), held)
    for found, given in zip(value.as_sequences(), sequences, strict=True):
        np.testing.assert_array_equal(found, given)
    assert [each.shape for each in value.for_variable(C.input_variable(2))] == [(1, 2)] * 6
    assert [each.shape for each in value.for_variable(s)] == [(2, 2), (1, 2), (3, 2)]
    begun = Value.create(s, sequences)
    assert begun.mask[:, 0].tolist() == [2, 2, 2]
    assert not begun.is_read_only
    assert Value.create(s, sequences[:1]).mask is None
    assert Value.create(s, begun) is begun
    with pytest.raises(ValueError, match=r"has no sequences$"):
        value.as_sequences(C.input_variable(2))


def test_samples_are_a_value() -> None:
    x = C.input_variable(4)
    value = asvalue(x, DATA)
    assert (value.shape, value.mask) == ((3, 4), None)
    np.testing.assert_array_equal(value.asarray(), DATA)
    np.testing.assert_array_equal(Value.create(x, NDArrayView.from_dense(DATA)).asarray(), DATA)
    plain = Value(DATA)
    assert (plain.mask, plain.is_sparse, plain.is_read_only, plain.is_valid) == (None, False, False, True)
    assert plain.device == C.cpu()
    assert [each.tolist() for each in plain.as_sequences()] == DATA.tolist()
    assert [each.tolist() for each in plain.for_variable(x)] == [[row] for row in DATA.tolist()]
    typed = Value([[1, 2], [3, 4]])
    assert (typed.dtype, typed.shape) == (np.float32, (2, 2))
    assert Value(np.ones((2, 2))).dtype == np.float64
    assert Value([DATA, DATA[:1]]).shape == (2, 3, 4)
    fixed = C.input_variable(4, dynamic_axes=[])
    assert Value.create(fixed, [1, 2, 3, 4]).dtype == np.float32
    assert (x + 1).eval({x: plain}).tolist() == (DATA + 1).tolist()


def test_values_are_sparse_or_dense() -> None:
    s = C.sequence.input_variable(4, is_sparse=True)
    rows = [csr_matrix(DATA), csr_matrix(DATA[:1])]
    value = Value.create(s, rows)
    assert (value.is_sparse, value.shape, value.data.shape) == (True, (2, 3, 4), (2, 3, 4))
    assert value.mask.tolist() == [[2, 1, 1], [2, 0, 0]]
    np.testing.assert_array_equal(value.data.asarray().toarray(), np.concatenate([DATA, DATA[:1], 0 * DATA[:2]]))
    assert [each.shape for each in value.asarray()] == [(3, 4), (1, 4)]
    assert Value.create(s, rows[:1]).asarray().shape == (3, 4)
    dense = value.for_variable(C.sequence.input_variable(4))
    np.testing.assert_array_equal(dense[0], DATA)
    samples = Value.create(C.input_variable(4, is_sparse=True), csr_matrix(DATA))
    assert (samples.shape, samples.mask) == ((3, 4), None)
    for wrong, message in (
        ([csr_matrix(DATA), DATA], "sparse and dense sequences cannot be in one minibatch"),
        ([csc_matrix(DATA)], r"only CSR is supported as of now\. Please convert your data using 'tocsr\(\)'"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            Value.create(s, wrong)


def test_one_hot_values() -> None:
    value = Value.one_hot([[2, 0], [1]], 3)
    assert [each.toarray().tolist() for each in value.as_sequences()] == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0]]]
    assert (value.dtype, value.shape) == (np.float32, (2, 2, 3))
    skipped = Value.one_hot([[Value.ONE_HOT_SKIP, 1]], 3, dtype=np.float64)
    assert skipped.as_sequences()[0].toarray().tolist() == [[0, 0, 0], [0, 1, 0]]
    assert skipped.dtype == np.float64
    pairs = Value.one_hot([[2, 0, 1, 1]], (2, 3))
    assert pairs.as_sequences()[0].toarray().reshape(2, 2, 3).tolist() == [
        [[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]],
    ]  # fmt: skip
    assert pairs.shape == (1, 2, 2, 3)
    x = C.input_variable(3)
    assert (x * 2).eval({x: Value.one_hot([2, 0], 3)}).tolist() == [[0, 0, 2], [2, 0, 0]]
    assert asarray(3, np.float64).dtype == np.float64


def test_axes_say_what_they_are() -> None:
    static, batch, steps = C.Axis(1), C.Axis.default_batch_axis(), C.Axis.default_dynamic_axis()
    kinds = [(each.is_static_axis, each.is_sequence_axis, each.is_batch_axis) for each in (static, batch, steps)]
    assert kinds == [(True, False, False), (False, False, True), (False, True, False)]
    assert [each.name for each in (static, batch, steps)] == [
        "staticAxisIdx=1", "defaultBatchAxis", "defaultDynamicAxis",
    ]  # fmt: skip
    assert [each.is_ordered for each in (static, batch, steps)] == [True, False, True]
    assert static.static_axis_index() == 1
    assert C.Axis(static) == static
    assert C.Axis(batch) == batch != steps
    assert len({C.Axis("a"), C.Axis("a", is_ordered=False), C.Axis("b"), C.Axis(1), C.Axis(1)}) == 3
    with pytest.raises(ValueError, match=r"^the axis 'defaultBatchAxis' is no static axis, so it has no index$"):
        batch.static_axis_index()
    assert batch.static_axis_index(checked=False) == 2**31 - 1
    for special in (C.Axis.all_axes(), C.Axis.all_static_axes(), *C.Axis.unknown_dynamic_axes()):
        assert (special.is_static_axis, special.is_sequence_axis, special.is_ordered) == (False, False, False)
    assert C.Axis.new_leading_axis().is_static_axis
    names = [C.Axis.new_unique_dynamic_axis("mine").name for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("mine") for name in names)


def test_devices() -> None:
    cpu, first = C.cpu(), C.device.DeviceDescriptor(C.device.DeviceKind.GPU, 0)
    assert (cpu.type(), cpu.id(), repr(cpu), cpu.is_locked()) == (0, 0, "CPU", False)
    assert (first.type(), first.id(), repr(first)) == (1, 0, "GPU[0]")
    assert cpu == C.cpu() != first
    assert len({cpu, C.cpu(), first}) == 2
    assert C.all_devices()[-1] == C.use_default_device() == cpu
    assert not C.try_set_default_device(cpu, acquire_device_lock=True)
    assert C.try_set_default_device(cpu)
    missing = C.device.DeviceDescriptor(C.device.DeviceKind.GPU, 99)
    assert not C.try_set_default_device(missing)
    C.device.set_excluded_devices([cpu])
    try:
        assert not C.try_set_default_device(cpu)
    finally:
        C.device.set_excluded_devices([])
    for number in (-1, 99):
        with pytest.raises(ValueError, match=f"^there is no GPU {number} that an engine here can use; `cntk doctor` "):
            C.gpu(number)
    with pytest.raises(ValueError, match=r"^CPU is no GPU$"):
        C.device.get_gpu_properties(cpu)
    with pytest.raises(NotImplementedError, match=r"^what a GPU is like is told by `cntk doctor`$"):
        C.device.get_gpu_properties(first)


def test_a_gpu_is_a_device_where_an_engine_can_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(C.device, "_count_gpus", lambda: 1)
    assert [repr(each) for each in C.all_devices()] == ["GPU[0]", "CPU"]
    assert C.gpu(0).id() == 0
    with pytest.raises(ValueError, match=r"^there is no GPU 1 "):
        C.gpu(1)
    monkeypatch.setattr(C.device, "_CHOICE", {})
    assert C.try_set_default_device(C.gpu(0), acquire_device_lock=True)
    assert C.use_default_device() == C.gpu(0)


def test_parameters_have_values_and_types() -> None:
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    assert C.Parameter(init=array).dtype == np.float64
    assert C.Parameter(init=array, dtype=np.float32).dtype == np.float32
    assert C.Parameter(init=array.astype(np.float16)).dtype == np.float32
    assert C.Parameter(5, init=array).shape == (2, 3)  # an array has its own shape
    assert C.Parameter((2, 3)).value.tolist() == [[0.0] * 3] * 2
    assert C.Parameter((2,), init=np.array([3.0])).value.tolist() == [3, 3]
    assert C.Parameter((1,), init=np.array([3.0])).value.tolist() == [3]
    assert C.Parameter((1, 1), init=np.array(3.0)).value.tolist() == [[3]]
    assert (C.Parameter().shape, C.Constant(4).value.tolist()) == ((), 4)
    assert C.Constant(2, shape=(2,)).value.tolist() == [2, 2]
    assert (C.Constant(array).dtype, C.Constant(array, dtype=np.float32).dtype) == (np.float64, np.float32)
    learned, fixed = C.Parameter(2), C.Constant(2)
    assert (learned.needs_gradient, fixed.needs_gradient) == (True, False)
    assert learned.as_parameter() is learned
    assert fixed.as_constant() is fixed
    with pytest.raises(TypeError, match=r"^cannot be converted into a Parameter$"):
        fixed.as_parameter()
    with pytest.raises(TypeError, match=r"^cannot be converted into a Constant$"):
        learned.as_constant()
    learned.set_value(NDArrayView.from_dense(np.array([1, 2], np.float32)))
    assert learned.asarray().tolist() == [1, 2]


def test_a_first_value_says_the_type_where_nothing_else_does() -> None:
    for given, found in ((np.float16, np.float16), (np.float64, np.float64), (np.int64, np.float32)):
        assert C.Parameter(init=np.ones(2, given), dtype=None).dtype == found
    assert C.Parameter(init=1, dtype=None).dtype == np.float32


def test_types_hold_what_is_said() -> None:
    kind = C.Variable._Type
    assert dict(kind()) == {}
    whole = kind((2,), np.float64, True, False, [C.Axis("a")])
    assert dict(whole) == {
        "shape": (2,), "dtype": np.float64, "needs_gradient": True, "is_sparse": False, "dynamic_axes": [C.Axis("a")],
    }  # fmt: skip
    assert [each.shape_is_known for each in (whole, kind(), kind((-2,)), kind(dtype=np.float32))] == [
        True, False, False, False,
    ]  # fmt: skip
    assert [dict(kind._sanitize(each)) for each in (3, (2, 3), {"shape": (4,)})] == [
        {"shape": (3,)}, {"shape": (2, 3)}, {"shape": (4,)},
    ]  # fmt: skip
    assert kind._sanitize(whole) is whole
    assert kind._sanitize(None) is None
    x = C.input_variable(2, needs_gradient=True, is_sparse=True)
    assert (x._type.needs_gradient, x._type.is_sparse, x._type.dynamic_axes) == (True, True, x.dynamic_axes)


def test_variables_say_what_they_are() -> None:
    x = C.input_variable((2, 3), np.float64, needs_gradient=True, is_sparse=True, name="x")
    assert (x.shape, x.dtype, x.needs_gradient, x.is_sparse, x.owner) == ((2, 3), np.float64, True, True, None)
    kinds = ("is_input", "is_output", "is_parameter", "is_constant", "is_placeholder")
    made = (x, C.abs(C.input_variable(1)).output, C.Parameter(1), C.Constant(1), C.placeholder())
    for place, each in enumerate(made):
        assert [getattr(each, kind) for kind in kinds] == [index == place for index in range(5)]
    assert made[1].owner.op_name == "Abs"
    assert (repr(x), repr(made[-1])[-14:]) == ("Input('x', [#], [2 x 3])", "', [???], [???])"[-14:])
    with pytest.raises(ValueError, match=r"^'x' has a name, which cannot be changed$"):
        x.name = "y"
    free = C.input_variable((C.FreeDimension, 3))
    assert repr(free).endswith("[* x 3])")
    plain = C.Variable(3)
    assert (plain.dtype, plain.needs_gradient, plain.is_sparse) == (np.float32, False, False)
    assert plain.dynamic_axes == C.Axis.default_input_variable_dynamic_axes()


def test_types_of_variables_as_text() -> None:
    kinds = C.layers.typing
    for type_, text in (
        (kinds.Tensor[3], "Tensor[3]"),
        (kinds.Sequence[kinds.Tensor[2, 3]], "Sequence[Tensor[2,3]]"),
        (kinds.SparseTensor[3], "SparseTensor[3]"),
        (kinds.Sequence[kinds.tensor], "Sequence[tensor]"),
        (kinds.SequenceOver[C.Axis("words")][kinds.Tensor[3]], "SequenceOver[words][Tensor[3]]"),
        (kinds.ParameterTensor[3], "ParameterTensor[3]"),
    ):
        type_ = getattr(type_, "as_type", lambda type_=type_: type_)()
        assert str(C.Variable._Type._sanitize(type_)) == text
    record = C.variables.Record(a=1, b=2)
    assert (record.a, record.updated_with(b=3).b) == (1, 3)
    for change in (lambda: record.c, lambda: record.updated_with(c=3)):
        with pytest.raises(AttributeError, match=r"^record has no attribute 'c'$"):
            change()
    with pytest.raises(AttributeError, match=r"^record is immutable; use updated_with\(a=\.\.\.\)$"):
        record.a = 3


SANITIZED = [
    (sanitize.sanitize_shape, None, ()),
    (sanitize.sanitize_shape, 3, (3,)),
    (sanitize.sanitize_shape, [2, np.int64(3)], (2, 3)),
    (sanitize.sanitize_dtype_numpy, "float", np.float32),
    (sanitize.sanitize_dtype_numpy, "double", np.float64),
    (sanitize.sanitize_dtype_numpy, float, np.float64),
    (sanitize.sanitize_dtype_numpy, int, np.float32),
    (sanitize.sanitize_dtype_numpy, 1, np.float32),
    (sanitize.sanitize_dtype_numpy, 2, np.float64),
    (sanitize.sanitize_dtype_numpy, 4, np.float16),
    (sanitize.sanitize_dtype_cntk, np.dtype(np.float64), np.float64),
    (sanitize.sanitize_precision, "float16", np.float16),
    (sanitize.sanitize_precision, np.float64, np.float64),
    (sanitize.sanitize_dynamic_axes, None, ()),
    (sanitize.sanitize_dynamic_axes, C.Axis("a"), (C.Axis("a"),)),
    (sanitize.sanitize_dynamic_axes, [C.Axis("a"), C.Axis("b")], (C.Axis("b"), C.Axis("a"))),
    (sanitize.sanitize_axis, None, C.Axis.all_static_axes()),
    (sanitize.sanitize_axis, 0, C.Axis(-1)),
    (sanitize.sanitize_axis, -1, C.Axis(0)),
    (sanitize.sanitize_axis, C.Axis(1), C.Axis(-2)),
    (sanitize.sanitize_axis, C.Axis.new_leading_axis(), C.Axis.new_leading_axis()),
    (sanitize.sanitize_axis, C.Axis.all_axes(), C.Axis.all_axes()),
    (sanitize.sanitize_axis_list, 2, [C.Axis(-3)]),
    (sanitize.sanitize_axis_list, (0, -1), [C.Axis(-1), C.Axis(0)]),
    (sanitize.sanitize_permutation, (2, 0, 1), [1, 2, 0]),
    (sanitize.sanitize_permutation, (-1, 0), [1, 0]),
    (sanitize.sanitize_2d_number, 3, (3, 3)),
    (sanitize.sanitize_2d_number, [3, 4], (3, 4)),
    (sanitize.sanitize_range, 3, (-3, 3)),
    (sanitize.sanitize_range, (1, 3), (1, 3)),
    (sanitize.is_string, "a", True),
    (sanitize.is_string, 3, False),
    (sanitize.is_byte_buffer, b"a", True),
    (sanitize.is_byte_buffer, "a", False),
]


@pytest.mark.parametrize(("bring", "given", "found"), SANITIZED)
def test_arguments_are_brought_into_one_form(bring: object, given: object, found: object) -> None:
    assert bring(given) == found


@pytest.mark.parametrize(
    ("bring", "kind", "message"),
    [
        (lambda: sanitize.sanitize_shape((2.5,)), ValueError, r"a shape has whole numbers, not \(2\.5,\)"),
        (lambda: sanitize.sanitize_dtype_numpy("text"), ValueError, r'data type "text" is not supported'),
        (lambda: sanitize.sanitize_dtype_numpy(3), ValueError, r'data type "3" is not supported'),
        (lambda: sanitize.sanitize_dynamic_axes(["a"]), TypeError, r"dynamic axes have to be of the type Axis, not .*"),
        (lambda: sanitize.sanitize_dynamic_axes([C.Axis("a")] * 2), ValueError, r"an axis is named twice"),
        (lambda: sanitize.sanitize_axis("a"), TypeError, r"an axis is a number or of the type Axis, not 'a'"),
        (lambda: sanitize.sanitize_permutation((0, 0)), ValueError, r"\(0, 0\) is no permutation of 2 axes"),
        (lambda: sanitize.sanitize_2d_number((1, 2, 3)), ValueError, r"expected one number or two, not \(1, 2, 3\)"),
        (lambda: sanitize.sanitize_random_args(None, np.float32), ValueError, r"random numbers need a shape"),
        (lambda: internal.variable_of(3), TypeError, r"expected a Variable or a Function, not int"),
        (lambda: internal.sanitize_function(3), TypeError, r"expected a Function or a Variable, not int"),
        (lambda: internal.sanitize_input([C.placeholder()]), ValueError, r"a list of variables is no operand; .*"),
        (lambda: internal.sanitize_input("a"), ValueError, r"an operand is a Variable, .* or an array, not str"),
        (lambda: internal.sanitize_value(None, None, np.float32, None), ValueError,
         r"you need to specify at least shape or value"),
        (lambda: options.get_default_override(None, a=1, b=2), TypeError,
         r"get_default_override\(\) expects one keyword argument"),
    ],
)  # fmt: skip
def test_arguments_that_are_wrong(bring: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{message}$"):
        bring()


def test_data_are_given_by_name_or_variable() -> None:
    x, y = C.input_variable(2, name="x"), C.input_variable(2, name="y")
    f, data = x - y, np.ones((1, 2), np.float32)
    assert f.eval({"x": 3 * data, y: data}).tolist() == [[2, 2]]
    for given, message in (
        ({"z": data}, r"there is no input with the name 'z'; the inputs are x, y"),
        (data, r"data without a dictionary can be given to one variable, and there are 2"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            f.eval(given)
    twice = C.input_variable(2, name="x") + x
    with pytest.raises(ValueError, match=r"^several inputs have the name 'x'; the inputs are x, x$"):
        twice.eval({"x": data})
    assert (x + 1).eval(data).tolist() == [[2, 2]]
    assert C.plus(1, 2).eval({}) == 3
    with pytest.raises(ValueError, match=r"^you specified sequence begin markers, but your variable has no sequences$"):
        (x + 1).eval((data, [True]))
    with pytest.warns(RuntimeWarning, match="data is not C contiguous"):
        (x + 1).eval({x: np.ones((2, 4), np.float32)[:, ::2]})


def test_first_values_are_views() -> None:
    assert internal.sanitize_value((2,), 3, np.float64, None).asarray().tolist() == [3, 3]
    assert internal.sanitize_value((2,), None, np.float64, None).dtype == np.float64
    assert internal.sanitize_value(None, [1, 2], np.float32, None).shape == (2,)
    several = internal.sanitize_variables_or_functions([C.placeholder(), C.combine([C.Constant(1), C.Constant(2)])])
    assert len(several) == 3
    assert internal.sanitize_function(C.Constant(3)).eval() == 3
    assert internal.sanitize_input([1, 2], np.float64, reshape=(2, 1)).shape == (2, 1)


DATA_OF_SAMPLES = [
    (2, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    (2, [1, 2], None),
    (2, np.array([1.0, 2.0]), [[1, 2]]),
    (2, np.array([[[1.0, 2.0]], [[3.0, 4.0]]]), [[1, 2], [3, 4]]),
    ((), [1, 2], [1, 2]),
    ((), np.float32(3), [3]),
    ((), 3, [3]),
    (1, [3, 4], [[3], [4]]),
    ((2, 2), [[1, 2]], None),
    (2, csr_matrix([[1.0, 2.0], [0.0, 3.0]]), [[1, 2], [0, 3]]),
    (2, csr_matrix([[1.0, 2.0, 0.0, 3.0]]), [[1, 2], [0, 3]]),
]


@pytest.mark.parametrize(("shape", "given", "found"), DATA_OF_SAMPLES)
def test_data_of_samples(shape: object, given: object, found: object) -> None:
    x = C.input_variable(shape)
    if found is None:
        with pytest.raises(ValueError, match=r"^a value of the shape \[.*\] does not fit the variable Input\('Input"):
            (x + 0).eval({x: given})
    else:
        assert (x + 0).eval({x: given}).tolist() == found


def test_data_of_sequences() -> None:
    s = C.sequence.input_variable(1)
    for given, found in (
        ([[1, 2, 3], [4]], [[[1], [2], [3]], [[4]]]),
        ([np.array([[1.0], [2.0]])], [[[1], [2]]]),
        (np.array([[1.0], [2.0]]), [[[1], [2]]]),
        (np.array([[[1.0], [2.0]], [[3.0], [4.0]]]), [[[1], [2]], [[3], [4]]]),
    ):
        assert [each.tolist() for each in (s + 0).eval({s: given})] == found
    for wrong, message in (
        ([[[1, 2], [3]]], r"^the values for Input\('Input\w+', \[#, \*\], \[1\]\) are of several shapes$"),
        ([["a"]], r"^the values for Input\('Input\w+', \[#, \*\], \[1\]\) are no numbers, or of several shapes$"),
    ):
        with pytest.raises(ValueError, match=message):
            (s + 0).eval({s: wrong})


def test_options_of_the_program() -> None:
    assert options.get_global_option("of the test", 3) == 3
    options.set_global_option("of the test", 4)
    assert options.get_global_option("of the test", 3) == 4
    del options._GLOBAL["of the test"]
