"""The contract of an op: what every op has to keep, checked on examples.

A plugin's test file subclasses :class:`OpContract`::

    class TestSwish(OpContract):
        op = swish
        examples = (OpExample(((4,),)),)

or calls :func:`check_op` once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.language.expression import OPERATORS, ArrayMath, Expr, TraceMath, symbol
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Shape
from cntk_testing.gradients import check_op_gradients
from cntk_testing.op_cases import FRAMES, ExampleCase, OpExample, example_cases
from cntk_testing.recipes import RecipeContract
from cntk_testing.trait_checks import check_traits

Array = NDArray[Any]


def check_shape_rule(op: Op, examples: Sequence[OpExample]) -> None:
    """The value has the shape that the shape rule says, and a dynamic axis if an input has one."""
    for case in example_cases(op, examples):
        output = case.forward()
        sample = tuple(op.infer(list(case.example.shapes), case.attributes))
        framed = any(case.framed) and not op.reduces_frames
        expected = (FRAMES, *sample) if framed else sample
        assert output.shape == expected, f"{op.name} of {case.example.shapes}: {output.shape} instead of {expected}"


def check_differences(op: Op, examples: Sequence[OpExample]) -> None:
    """The gradients agree with central differences."""
    for case in example_cases(op, examples):
        if case.example.gradient:
            check_op_gradients(op, case.inputs, case.framed, case.attributes, context=case.context)


def _gradients(case: ExampleCase, inputs: Sequence[Array], dtype: Any) -> tuple[Array, list[Array | None]]:
    typed = [value.astype(dtype) for value in inputs]
    context = case.context()
    output = np.array(run_forward(case.op, np, typed, case.attributes, context))
    gradient = (np.arange(output.size, dtype=dtype).reshape(output.shape) + 1) / output.size
    results = run_gradient(case.op, np, gradient.astype(dtype), output, typed, case.attributes, context, case.needs())
    return output, results


def check_precisions(op: Op, examples: Sequence[OpExample]) -> None:
    """Single precision stays single, double stays double, and both give the same numbers."""
    for case in example_cases(op, examples):
        exact, exact_gradients = _gradients(case, case.inputs, np.float64)
        rough, rough_gradients = _gradients(case, case.inputs, np.float32)
        assert exact.dtype == np.float64, f"{op.name} of float64 gives {exact.dtype}"
        assert rough.dtype == np.float32, f"{op.name} of float32 gives {rough.dtype}"
        np.testing.assert_allclose(rough, exact, rtol=1e-4, atol=1e-5, err_msg=op.name)
        for index, (single, double) in enumerate(zip(rough_gradients, exact_gradients, strict=True)):
            assert (single is None) == (double is None)
            if single is not None and double is not None:
                assert single.dtype == np.float32, f"gradient {index} of {op.name} of float32 is {single.dtype}"
                np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-4, err_msg=op.name)


def check_nan(op: Op, examples: Sequence[OpExample]) -> None:
    """A NaN in an input shows in the output; nothing hides it."""
    for case in example_cases(op, examples):
        flows = tuple(index for index, needed in enumerate(case.needs()) if needed)
        for index in flows if case.example.nan is None else case.example.nan:
            inputs = [value.copy() for value in case.inputs]
            inputs[index].reshape(-1)[0] = np.nan
            assert np.isnan(case.forward(inputs)).any(), f"{op.name} hides a NaN in input {index}"


def check_tracing(op: Op, examples: Sequence[OpExample]) -> None:
    """An element-wise op gives the same numbers when it is traced and the traced tree is computed."""
    if op.elementwise is None:
        return
    for case in example_cases(op, examples):
        names = [f"x{index}" for index in range(len(case.inputs))]
        symbols = [symbol(name) for name in names]
        trace = TraceMath()
        tree = op.elementwise.forward(trace, case.attributes, *symbols)
        flat = [np.float64(value.reshape(-1)[0]) for value in case.inputs]
        numbers = dict(zip(names, flat, strict=True))
        direct = op.elementwise.forward(ArrayMath(np), case.attributes, *flat)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(compute(tree, numbers), direct)
            numbers |= {"y": np.float64(direct), "g": np.float64(0.7)}
            direct_gradients = op.elementwise.gradient(
                ArrayMath(np), case.attributes, numbers["g"], numbers["y"], *flat
            )
            traced = op.elementwise.gradient(trace, case.attributes, symbol("g"), symbol("y"), *symbols)
            for found, expected in zip(traced, direct_gradients, strict=True):
                assert (found is None) == (expected is None)
                if found is not None:
                    np.testing.assert_array_equal(compute(found, numbers), expected)


def compute(tree: Expr | float, numbers: Mapping[str, Any]) -> Any:
    """Compute an expression tree with NumPy; ``numbers`` gives the symbols' values."""
    if not isinstance(tree, Expr):
        return tree
    if tree.operation == "symbol":
        return numbers[str(tree.args[0])]
    values = [compute(arg, numbers) for arg in tree.args if not isinstance(arg, str)]
    if tree.operation == "neg":
        return -values[0]
    if tree.operation in OPERATORS:
        left, right = values
        return {"add": left + right, "sub": left - right, "mul": left * right, "div": np.divide(left, right)}[
            tree.operation
        ]
    return getattr(ArrayMath(np), tree.operation)(*values)


def check_purity(op: Op, examples: Sequence[OpExample]) -> None:
    """Computing changes no input, and the gradient looks only at values that the op says it reads."""
    for case in example_cases(op, examples):
        kept = [value.copy() for value in case.inputs]
        output, expected = _gradients(case, case.inputs, np.float64)
        for index, (before, after) in enumerate(zip(kept, case.inputs, strict=True)):
            if index not in op.updates:
                np.testing.assert_array_equal(before, after, err_msg=f"{op.name} changes an input")
        if op.elementwise is not None:
            continue
        context = case.context()
        run_forward(op, np, case.inputs, case.attributes, context)
        inputs = case.inputs if op.reads_inputs else [np.full_like(value, np.nan) for value in case.inputs]
        seen = output if op.reads_output else np.full_like(output, np.nan)
        gradient = (np.arange(output.size, dtype=np.float64).reshape(output.shape) + 1) / output.size
        found = run_gradient(op, np, gradient, seen, inputs, case.attributes, context, case.needs())
        for one, other in zip(found, expected, strict=True):
            if one is not None and other is not None:
                np.testing.assert_array_equal(one, other, err_msg=f"{op.name} reads more than it says")


def check_sparse(op: Op, examples: Sequence[OpExample]) -> None:
    """An input that may be sparse gives the same sparse as dense."""
    for case in example_cases(op, examples):
        for index in sorted(op.sparse_inputs):
            if index < len(case.inputs) and case.framed[index] and case.inputs[index].ndim == 2:
                _check_sparse_input(case, index)


def _check_sparse_input(case: ExampleCase, index: int) -> None:
    from scipy.sparse import csr_array

    inputs: list[Any] = list(case.inputs)
    if case.example.kinds[index : index + 1] != ("one_hot",):
        inputs[index] = np.where(inputs[index] > 0, inputs[index], 0.0)  # of either kind of elements
    dense, sparse = (case.context() for _ in range(2))
    needs = [needed and place != index for place, needed in enumerate(case.needs())]
    given = [
        csr_array(value.reshape(len(value), -1)) if place == index else value for place, value in enumerate(inputs)
    ]
    outputs = [
        np.array(run_forward(case.op, np, values, case.attributes, context))
        for values, context in ((inputs, dense), (given, sparse))
    ]
    what = f"{case.op.name} with a sparse input {index}"
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-12, atol=1e-12, err_msg=what)
    gradient = (np.arange(outputs[0].size, dtype=np.float64).reshape(outputs[0].shape) + 1) / max(outputs[0].size, 1)
    expected, found = (
        run_gradient(case.op, np, gradient, output, values, case.attributes, context, needs)
        for values, output, context in zip((inputs, given), outputs, (dense, sparse), strict=True)
    )
    for one, other in zip(expected, found, strict=True):
        assert (one is None) == (other is None), what
        if one is not None and other is not None:
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12, err_msg=what)


CHECKS = (
    check_shape_rule,
    check_differences,
    check_precisions,
    check_nan,
    check_tracing,
    check_purity,
    check_sparse,
    check_traits,
)


def check_op(op: Op, *examples: OpExample, shapes: Sequence[Shape] = (), attributes: Any = None) -> None:
    """Run every check on examples, or on one made of ``shapes`` and ``attributes``."""
    tried = examples or (OpExample(tuple(tuple(shape) for shape in shapes), attributes),)
    for check in CHECKS:
        check(op, tried)


class OpContract(RecipeContract):
    """Tests of an op for pytest: subclass it with ``op`` and ``examples``."""

    op: ClassVar[Op]
    examples: ClassVar[Sequence[OpExample]]

    def test_shape_rule(self) -> None:
        """The value has the shape that the shape rule says."""
        check_shape_rule(self.op, self.examples)

    def test_gradients(self) -> None:
        """The gradients agree with central differences."""
        check_differences(self.op, self.examples)

    def test_precisions(self) -> None:
        """Single and double precision stay what they are and agree."""
        check_precisions(self.op, self.examples)

    def test_nan(self) -> None:
        """A NaN in an input shows in the output."""
        check_nan(self.op, self.examples)

    def test_tracing(self) -> None:
        """A traced element-wise op gives the same numbers."""
        check_tracing(self.op, self.examples)

    def test_sparse(self) -> None:
        """Sparse inputs give what dense ones give."""
        check_sparse(self.op, self.examples)

    def test_purity(self) -> None:
        """Inputs stay as they are; the gradient reads what the op says."""
        check_purity(self.op, self.examples)

    def test_traits(self) -> None:
        """The op is what it says it is."""
        check_traits(self.op, self.examples)
