"""Variables: inputs, outputs of functions, parameters, constants, placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk._graph.primitive import next_uid
from cntk._members.variables import LibraryKept, LibraryVariable
from cntk.axis import Axis
from cntk.default_options import default_override_or, get_default_override
from cntk.internal.sanitize import sanitize_dtype_numpy, sanitize_dynamic_axes, sanitize_shape
from cntk.tensor import ArrayMixin, TensorOpsMixin

if TYPE_CHECKING:
    from cntk._graph.primitive import Primitive
    from cntk.device import DeviceDescriptor
    from cntk.ops.functions import Function

INPUT, OUTPUT, PARAMETER, CONSTANT, PLACEHOLDER = range(5)
"""Kinds of variables, numbered as in the original's files."""

INFERRED, UNKNOWN, FREE = -1, (-2,), -3
"""A dimension that is inferred, a shape of which nothing is known, a dimension that each minibatch brings."""

_KINDS = ("Input", "Output", "Parameter", "Constant", "Placeholder")
_DEFAULT_AXES = Axis.default_input_variable_dynamic_axes()


class Record(dict[str, Any]):
    """A dictionary whose values are attributes, too; made of keyword arguments, and not to be changed."""

    def __getattr__(self, key: str) -> Any:
        """Return a value.

        Raises:
            AttributeError: there is none.
        """
        if key not in self:
            raise AttributeError(f"record has no attribute '{key}'")
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        """Raise AttributeError: a record stays as it is."""
        raise AttributeError(f"record is immutable; use updated_with({key}=...)")

    def updated_with(self, **kwargs: Any) -> Record:
        """Return a record with some other values.

        Raises:
            AttributeError: there is no such attribute.
        """
        for key in kwargs:
            if key not in self:
                raise AttributeError(f"record has no attribute '{key}'")
        return Record(**{**self, **kwargs})


class VariableMixin(LibraryVariable):
    """What all variables have."""

    _kind: int
    _shape: tuple[int, ...] | None
    _dtype: Any
    _axes: tuple[Axis, ...] | None
    _owner: Primitive | None
    _index: int
    _name: str
    _uid: str
    _sparse: bool
    _gradient: bool

    def _set(
        self,
        kind: int,
        shape: tuple[int, ...] | None,
        dtype: Any,
        axes: tuple[Axis, ...] | None,
        *,
        name: str = "",
        uid: str = "",
        sparse: bool = False,
        gradient: bool = False,
        owner: Primitive | None = None,
        index: int = 0,
    ) -> None:
        self._kind, self._shape, self._dtype, self._axes = kind, shape, dtype, axes
        self._name, self._sparse, self._gradient = name or "", sparse, gradient
        self._owner, self._index = owner, index
        self._uid = uid or next_uid(_KINDS[kind])

    @property
    def uid(self) -> str:
        """Unique name."""
        return self._uid

    @property
    def name(self) -> str:
        """The name that was given; "" for none."""
        return self._name

    @name.setter
    def name(self, value: str) -> None:
        if self._name:
            raise ValueError(f"'{self._name}' has a name, which cannot be changed")
        self._name = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, in NumPy's order; ``(-2,)`` while it is not known."""
        return UNKNOWN if self._shape is None else self._shape

    @property
    def dtype(self) -> Any:
        """The type of the numbers: float32 or float64; None while it is not known."""
        return None if self._dtype is None else np.dtype(self._dtype).type

    @property
    def dynamic_axes(self) -> tuple[Axis, ...]:
        """The dynamic axes: none, the batch axis, or the batch axis and a sequence axis."""
        return Axis.unknown_dynamic_axes() if self._axes is None else self._axes

    @property
    def is_sparse(self) -> bool:
        """Whether only elements that are not zero are given."""
        return self._sparse

    @property
    def needs_gradient(self) -> bool:
        """Whether gradients flow to it."""
        return self._gradient

    @property
    def is_input(self) -> bool:
        """Whether a minibatch gives it."""
        return self._kind == INPUT

    @property
    def is_output(self) -> bool:
        """Whether a function computes it."""
        return self._kind == OUTPUT

    @property
    def is_parameter(self) -> bool:
        """Whether it is learned."""
        return self._kind == PARAMETER

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant."""
        return self._kind == CONSTANT

    @property
    def is_placeholder(self) -> bool:
        """Whether it stands for something that is said later."""
        return self._kind == PLACEHOLDER

    @property
    def owner(self) -> Function | None:
        """The primitive function that computes it; None of all but outputs."""
        if self._owner is None:
            return None
        from cntk.ops.functions import primitive_function

        return primitive_function(self._owner)

    @property
    def _type(self) -> Any:
        return Variable._Type(
            self.shape, self.dtype, self.needs_gradient, self.is_sparse, self._axes if self._axes is not None else ()
        )

    def __repr__(self) -> str:
        if self._axes is None:
            axes = "???"
        else:
            axes = ", ".join("#" if axis.is_batch_axis else "*" for axis in self._axes)
        shape = "???" if self._shape is None else " x ".join(_SHOWN.get(dim, str(dim)) for dim in self._shape)
        return f"{_KINDS[self._kind]}('{self._name or self._uid}', [{axes}], [{shape}])"


_SHOWN = {INFERRED: "?", FREE: "*"}


class Variable(VariableMixin, TensorOpsMixin):
    """A variable: mostly made by :func:`cntk.input_variable` and by functions.

    Args:
        shape: of a sample.
        dtype: float32 or float64.
        needs_gradient: gradients flow to it.
        is_sparse: only elements that are not zero are given.
        dynamic_axes: its dynamic axes.
        name: of the user.
    """

    _Type: type[Any]

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = None,
        needs_gradient: bool = False,
        is_sparse: bool = False,
        dynamic_axes: Any = _DEFAULT_AXES,
        name: str = "",
    ) -> None:
        self._set(
            INPUT,
            sanitize_shape(shape),
            np.float32 if dtype is None else sanitize_dtype_numpy(dtype),
            tuple(sanitize_dynamic_axes(dynamic_axes))[::-1],
            name=name,
            sparse=is_sparse,
            gradient=needs_gradient,
        )

    @classmethod
    def _made(cls, kind: int, shape: Any, dtype: Any, axes: Any, **more: Any) -> Variable:
        made = cls.__new__(cls)
        made._set(kind, shape, dtype, axes, **more)
        return made

    def as_parameter(self) -> Parameter:
        """Return this variable, which is a parameter.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(self, Parameter):
            raise TypeError("cannot be converted into a Parameter")
        return self

    def as_constant(self) -> Constant:
        """Return this variable, which is a constant.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(self, Constant):
            raise TypeError("cannot be converted into a Constant")
        return self


class _Kept(LibraryKept, Variable, ArrayMixin):
    """A variable with a value of its own."""

    _value: NDArray[Any] | None
    _first: Any
    _node: Any

    def _keep(self, kind: int, value: Any, shape: Any, dtype: Any, name: str, uid: str = "") -> None:
        from cntk.initializer import first_value

        if value is None:
            value = 0
        self._first, array = first_value(value)
        if self._first is not None:
            self._first = self._first.seeded()  # seeds go by the order in which parameters are made
        whole = isinstance(value, np.ndarray) and value.size > 1  # has its own shape, as in the original
        given = None if shape is None or whole else sanitize_shape(shape)
        if array is not None:
            if dtype is None:
                dtype = array.dtype if array.dtype in (np.float32, np.float64, np.float16) else np.float32
            array = np.array(array, dtype)
            if given is None:
                given = array.shape
            elif array.ndim == 0 or (array.size == 1 and given != array.shape):
                from cntk.initializer import Initial

                self._first, array = Initial("constant", value=float(array.reshape(-1)[0])), None
        elif given is None:
            given = ()
        assert given is not None
        self._set(kind, given, np.float32 if dtype is None else np.dtype(dtype).type, (), name=name, uid=uid,
                  gradient=kind == PARAMETER)  # fmt: skip
        self._value, self._node = array, None

    def _current(self) -> NDArray[Any]:
        """The value where it is: in the memory of what trains it, if something does.

        Raises:
            GraphError: its shape is not known yet.
        """
        from cntk._graph.leaves import current_value

        return current_value(self)

    @property
    def value(self) -> NDArray[Any]:
        """The value as an array."""
        return np.array(self._current(), dtype=self._dtype)

    @value.setter
    def value(self, value: Any) -> None:
        from cntk._graph.leaves import set_value
        from cntk.core import plain_array

        set_value(self, plain_array(value))
        self.record_value_update()

    def _held(self) -> NDArray[Any]:
        return self.value

    def set_value(self, value: Any) -> None:
        """Set the value, of an array or an :class:`~cntk.core.NDArrayView`."""
        self.value = value


class Parameter(_Kept):
    """A tensor that is learned.

    Args:
        shape: a dimension :data:`cntk.InferredDimension` is inferred from what reads it.
        init: its first value: a number, an array, or an initializer of :mod:`cntk.initializer`.
        dtype: float32 or float64; by default that of an array.
        device: is taken for compatibility; the engine has its parameters where it computes.
        name: of the user.
    """

    def __init__(
        self,
        shape: Any = None,
        init: Any = None,
        dtype: Any = default_override_or(np.float32),  # noqa: B008
        device: DeviceDescriptor | None = None,
        name: str = "",
    ) -> None:
        if get_default_override(None, pure=default_override_or(False)):
            raise TypeError("parameters cannot be created inside a @Function def")
        typed = get_default_override(Parameter, dtype=dtype)
        if isinstance(init, np.ndarray) and init.dtype in (np.float32, np.float64) and dtype is _unsaid(Parameter):
            typed = init.dtype
        self._keep(PARAMETER, init, shape, None if typed is None else sanitize_dtype_numpy(typed), name)


class Constant(_Kept):
    """A tensor that is not learned.

    Args:
        value: a number or an array, or an initializer.
        shape: of a number that is repeated.
        dtype: float32 or float64; by default that of an array.
        device: is taken for compatibility.
        name: of the user.
    """

    def __init__(
        self,
        value: Any = None,
        shape: Any = None,
        dtype: Any = default_override_or(np.float32),  # noqa: B008
        device: DeviceDescriptor | None = None,
        name: str = "",
    ) -> None:
        typed = get_default_override(Constant, dtype=dtype)
        if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64) and dtype is _unsaid(Constant):
            typed = value.dtype
        self._keep(CONSTANT, value, shape, None if typed is None else sanitize_dtype_numpy(typed), name)


def _unsaid(kind: type[Any]) -> Any:
    """The default of the argument ``dtype``: nothing was said."""
    return kind.__init__.__defaults__[2]


class _VariableType(Record):
    """The type of a variable as far as it is said: shape, dtype, dynamic axes and the like."""

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = None,
        needs_gradient: bool | None = None,
        is_sparse: bool | None = None,
        dynamic_axes: Any = None,
    ) -> None:
        said: dict[str, Any] = {}
        if shape is not None:
            said["shape"] = shape
        if dtype is not None:
            said["dtype"] = dtype
        if needs_gradient is not None:
            said["needs_gradient"] = needs_gradient
        if is_sparse is not None:
            said["is_sparse"] = is_sparse
        if dynamic_axes is not None:
            said["dynamic_axes"] = dynamic_axes
        super().__init__(**said)

    @classmethod
    def _sanitize(cls, type_: Any) -> Any:
        """Return the type that a shape, a number or an annotation says; anything else as it is."""
        if type_ is None or isinstance(type_, cls):
            return type_
        if isinstance(type_, int | tuple):
            return cls(shape=type_ if isinstance(type_, tuple) else (type_,))
        if isinstance(type_, Mapping):
            return cls(**type_)
        as_type = getattr(type_, "as_type", None)
        return as_type() if callable(as_type) else type_

    @property
    def shape_is_known(self) -> bool:
        """Whether a shape is said, and known."""
        return "shape" in self and self["shape"] is not None and self["shape"] != UNKNOWN

    def __str__(self) -> str:
        """``Sequence[Tensor[3]]`` as the signature of a function says it."""
        return type_text(self.get("shape"), self.get("dynamic_axes"), bool(self.get("is_sparse")), self.get("dtype"))


Variable._Type = _VariableType


def type_text(shape: Any, axes: Iterable[Axis] | None, sparse: bool, dtype: Any = None) -> str:
    """Return ``Sequence[Tensor[3]]`` for a shape and dynamic axes; types but float32 stand in front of the shape."""
    kind = "np.float32" if dtype is None else f"np.{np.dtype(dtype).name}"
    named = tuple(axes or ())
    if shape is None or shape == UNKNOWN:
        text = "tensor"
    elif shape == ():
        text = kind
    else:
        dims = [str(dim) for dim in shape] if kind == "np.float32" else [kind, *map(str, shape)]
        text = f"{'Sparse' if sparse else ''}Tensor[{','.join(dims)}]"
    if not named and axes is not None and shape not in (None, UNKNOWN):
        return f"Parameter{text}" if text.startswith("Tensor") else text
    for axis in named:
        if axis == Axis.default_batch_axis():
            continue
        if axis == Axis.default_dynamic_axis() or axis.name == "UnknownAxes":
            text = f"Sequence[{text}]"
        else:
            text = f"SequenceOver[{axis.name}][{text}]"
    return text
