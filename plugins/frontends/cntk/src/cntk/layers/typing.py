"""Types of arguments: ``Tensor[3]``, ``Sequence[Tensor[3]]``, for annotations of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cntk._inherited import inherit
from cntk.axis import Axis
from cntk.internal.utils import get_python_function_arguments, map_function_arguments
from cntk.variables import UNKNOWN, Record, Variable

_BATCH = [Axis.default_batch_axis()]


class _TensorKind:
    """Makes types of tensors: ``Tensor[3, 4]``, ``Tensor[np.float64, 3]``."""

    def __init__(self, name: str, **said: Any) -> None:
        self.__name__ = name
        self._said = said

    def __getitem__(self, shape: Any) -> Any:
        """Return the type of a shape."""
        dims = shape if isinstance(shape, tuple) else (shape,)
        said = dict(self._said)
        if dims and dims[0] in (np.float32, np.float64, np.float16):
            said["dtype"], dims = dims[0], dims[1:]
        return Variable._Type(dims, **said)

    def as_type(self) -> Any:
        """Return the type without a shape."""
        return Variable._Type(UNKNOWN, **self._said)

    def __repr__(self) -> str:
        return self.__name__


class _SequenceKind:
    """Makes types of sequences: ``Sequence[Tensor[3]]``."""

    def __init__(self, axes: list[Axis]) -> None:
        self._axes = axes

    def __getitem__(self, item_type: Any) -> Any:
        """Return the type of sequences of tensors.

        Raises:
            TypeError: they would be sequences of sequences.
        """
        found = Variable._Type._sanitize(item_type)
        axes = found.get("dynamic_axes")
        if axes and list(axes) != _BATCH:
            raise TypeError("sequences over sequences are currently not supported")
        return Variable._Type(**{**found, "dynamic_axes": self._axes})


class _SequenceOver:
    """Makes types of sequences of an axis of their own: ``SequenceOver[axis][Tensor[3]]``."""

    def __getitem__(self, axis: Axis) -> _SequenceKind:
        """Return what makes types of sequences of an axis."""
        return _SequenceKind([Axis.default_batch_axis(), axis])


Tensor = _TensorKind("Tensor", is_sparse=False, dynamic_axes=_BATCH)
SparseTensor = _TensorKind("SparseTensor", is_sparse=True, dynamic_axes=_BATCH)
ParameterTensor = _TensorKind("ParameterTensor", is_sparse=False, dynamic_axes=[])
tensor = Tensor.as_type()
Sequence = _SequenceKind(list(Axis.default_input_variable_dynamic_axes()))
SequenceOver = _SequenceOver()


def Signature(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that says the types of a function's arguments.

    Raises:
        TypeError: there are more or fewer types than arguments.
        ValueError: the function has annotations.
    """

    def annotated(f: Callable[..., Any]) -> Callable[..., Any]:
        names, annotations = get_python_function_arguments(f)
        if annotations:
            raise ValueError("@Signature cannot be applied to functions that already have annotations")
        if len(args) + len(kwargs) != len(names):
            count = len(args) + len(kwargs)
            raise TypeError(
                f"{count} annotations provided for function to be decorated, but function has {len(names)} parameters"
            )
        f.__annotations__ = map_function_arguments(names, {name: name for name in names}, *args, **kwargs)
        return f

    return annotated


__all__ = ["ParameterTensor", "Record", "Sequence", "SequenceOver", "Signature", "SparseTensor", "Tensor", "tensor"]

inherit(__name__)
