"""Axes of values: static ones of a sample, the batch axis, and sequence axes."""

from __future__ import annotations

from itertools import count

_NOT_STATIC = 2**31 - 1
_ALL_STATIC = _NOT_STATIC - 1
_NEW_LEADING = _NOT_STATIC - 3
_ALL = _NOT_STATIC - 4
_UNKNOWN = "UnknownAxes"
_NUMBERS = count()


class Axis:
    """An axis.

    Args:
        index: of a static axis, from 0 in NumPy's order of axes; a negative one counts from the end. Or the name of a
            dynamic axis, or another axis.
        is_ordered: there are steps along the dynamic axis.
    """

    __slots__ = ("_index", "_name", "_ordered")

    _index: int
    _name: str
    _ordered: bool

    def __init__(self, index: int | str | Axis, is_ordered: bool = True) -> None:
        if isinstance(index, Axis):
            self._index, self._name, self._ordered = index._index, index._name, index._ordered
        elif isinstance(index, str):
            self._index, self._name, self._ordered = _NOT_STATIC, index, is_ordered
        elif hasattr(index, "__index__"):
            self._index, self._name, self._ordered = index.__index__(), f"staticAxisIdx={index.__index__()}", True
        else:
            raise TypeError(f"an axis is made of a whole number, of a name or of another axis, not of {index!r}")

    @classmethod
    def _special(cls, index: int, name: str) -> Axis:
        made = cls(name, False)
        made._index = index
        return made

    @property
    def name(self) -> str:
        """The name; of a static axis ``staticAxisIdx=`` and its index."""
        return self._name

    @property
    def is_ordered(self) -> bool:
        """Whether there is an order along the axis."""
        return self._ordered

    @property
    def is_static_axis(self) -> bool:
        """Whether it is an axis of a sample."""
        return self._index < _ALL or self._index == _NEW_LEADING

    @property
    def is_sequence_axis(self) -> bool:
        """Whether it is a dynamic axis with steps."""
        return self._index == _NOT_STATIC and self._ordered

    @property
    def is_batch_axis(self) -> bool:
        """Whether it is a dynamic axis without steps."""
        return self._index == _NOT_STATIC and not self._ordered

    def static_axis_index(self, checked: bool = True) -> int:
        """Return the index of a static axis.

        Raises:
            ValueError: it is none.
        """
        if checked and not self.is_static_axis:
            raise ValueError(f"the axis '{self._name}' is no static axis, so it has no index")
        return self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> int | str:
        return self._name if self._index == _NOT_STATIC else self._index

    def __repr__(self) -> str:
        return f"Axis('{self._name}')"

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    def is_dynamic_axis(self) -> bool:
        """Return whether it is the batch axis or a sequence axis."""
        return self._index == _NOT_STATIC and self._name != _UNKNOWN

    @staticmethod
    def all_axes() -> Axis:
        """Return what stands for all axes, static and dynamic."""
        return Axis._special(_ALL, "AllAxes")

    @staticmethod
    def all_static_axes() -> Axis:
        """Return what stands for all axes of a sample."""
        return Axis._special(_ALL_STATIC, "AllStaticAxes")

    @staticmethod
    def new_leading_axis() -> Axis:
        """Return what stands for an axis in front of all others that is still to be made."""
        return Axis(_NEW_LEADING)

    @staticmethod
    def end_static_axis() -> Axis:
        """Return what stands for the place behind the last axis, in the original's order of axes: in front of all."""
        return Axis.new_leading_axis()

    @staticmethod
    def operand_sequence_axis() -> Axis:
        """Return what stands for the sequence axis of whatever is computed with."""
        return Axis("__operandSequenceAxis")

    @staticmethod
    def default_batch_axis() -> Axis:
        """Return the batch axis."""
        return Axis("defaultBatchAxis", False)

    @staticmethod
    def default_dynamic_axis() -> Axis:
        """Return the sequence axis of inputs that name no other."""
        return Axis("defaultDynamicAxis", True)

    @staticmethod
    def default_input_variable_dynamic_axes() -> tuple[Axis, Axis]:
        """Return the batch axis and the default sequence axis."""
        return Axis.default_batch_axis(), Axis.default_dynamic_axis()

    @staticmethod
    def unknown_dynamic_axes() -> tuple[Axis]:
        """Return the axes of something whose axes are not known yet."""
        return (Axis._special(_NOT_STATIC, _UNKNOWN),)

    @staticmethod
    def new_unique_dynamic_axis(name: str) -> Axis:
        """Return a sequence axis that is no other; ``name`` is completed by a number where it was used."""
        if name not in _TAKEN:
            _TAKEN.add(name)
            return Axis(name)
        return Axis.new_unique_dynamic_axis(f"{name}{next(_NUMBERS)}")


_TAKEN: set[str] = {"defaultBatchAxis", "defaultDynamicAxis"}
