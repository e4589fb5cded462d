"""Operators of variables and functions, and what has an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cntk.ops.functions import Function


class TensorOpsMixin:
    """Operators that make functions: ``x + y``, ``x @ W``, ``x[0:2]``."""

    __array_ufunc__ = None  # so that a NumPy operand lets us answer
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Function:
        from cntk import ops

        return ops.plus(self, other)

    def __radd__(self, other: Any) -> Function:
        from cntk import ops

        return ops.plus(other, self)

    def __sub__(self, other: Any) -> Function:
        from cntk import ops

        return ops.minus(self, other)

    def __rsub__(self, other: Any) -> Function:
        from cntk import ops

        return ops.minus(other, self)

    def __mul__(self, other: Any) -> Function:
        from cntk import ops

        return ops.element_times(self, other)

    def __rmul__(self, other: Any) -> Function:
        from cntk import ops

        return ops.element_times(other, self)

    def __truediv__(self, other: Any) -> Function:
        from cntk import ops

        return ops.element_divide(self, other)

    def __rtruediv__(self, other: Any) -> Function:
        from cntk import ops

        return ops.element_divide(other, self)

    def __matmul__(self, other: Any) -> Function:
        from cntk import ops

        return ops.times(self, other)

    def __rmatmul__(self, other: Any) -> Function:
        from cntk import ops

        return ops.times(other, self)

    def __abs__(self) -> Function:
        from cntk import ops

        return ops.abs(self)

    def __neg__(self) -> Function:
        from cntk import ops

        return ops.negate(self)

    def __getitem__(self, arg: Any) -> Any:
        """Return a part: of a function with several outputs one of them, else a slice, as of a NumPy array.

        A list of indices gives these elements of an axis beside each other. Axes are kept; an index makes length 1.

        Raises:
            KeyError: there is no such output.
            TypeError, ValueError: it is no index, slice or list; or a slice has an end, but steps backwards.
        """
        outputs = getattr(self, "outputs", ())
        if len(outputs) > 1:
            try:
                return outputs[arg]
            except (IndexError, TypeError):
                raise KeyError(f"a function with {len(outputs)} outputs has no output {arg!r}") from None
        return _part(self, arg if isinstance(arg, tuple) else (arg,))


def _part(whole: Any, indices: tuple[Any, ...]) -> Any:
    from cntk import ops

    first = 0
    for place, index in enumerate(indices):
        if index is Ellipsis:
            first = -len(indices)
            continue
        axis = place + first
        if isinstance(index, slice):
            if index.start or index.stop or index.step not in (None, 1):
                whole = ops.slice(whole, axis, index.start or 0, index.stop or 0, index.step)
        elif isinstance(index, tuple | list):
            parts = []
            for one in index:
                if not isinstance(one, int):
                    raise IndexError(f"an element of a list of indices has to be a whole number, not {one!r}")
                parts.append(ops.slice(whole, axis, one, one + 1))
            whole = ops.splice(*parts, axis=axis) if len(parts) > 1 else parts[0]
        elif isinstance(index, int):
            whole = ops.slice(whole, axis, index, index + 1)
        else:
            raise IndexError(f"an index has to be a whole number, a range or a list, not {index!r}")
    return whole


class ArrayMixin:
    """What :meth:`asarray` makes an array of."""

    def asarray(self) -> Any:
        """Return the value as an array of NumPy, or as SciPy's sparse matrices."""
        return self._held()

    def _held(self) -> Any:
        raise NotImplementedError


AVAILABLE_TENSOR_OPS = ["abs", "add", "div", "getitem", "matmul", "mul", "neg", "radd", "rdiv", "rmatmul", "rmul",
                        "rsub", "rtruediv", "sub", "truediv"]  # fmt: skip
"""Operators of :class:`TensorOpsMixin`, without underscores."""
