"""ParameterStore: all parameters in one contiguous buffer, gradients in another, each learner slot in another."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.learner import Slot
from cntk_core.network.node import Parameter
from cntk_core.ops.language.shapes import elements

ALIGNMENT = 64
"""Bytes at whose multiples every parameter begins."""

FloatArray = NDArray[Any]

_STATE = "state."

Kind = Literal["values", "gradients", "slots"]


class Holder(Protocol):
    """Holds the numbers of a store somewhere else, such as in the memory of a GPU, while nobody looks at them here."""

    def give_back(self, kind: Kind) -> None:
        """Make the arrays of a kind current (:meth:`ParameterStore.raw`); the caller may change them afterwards."""
        ...


@runtime_checkable
class Lender(Holder, Protocol):
    """A holder that lets others change the numbers where it holds them."""

    def lend(self, kind: Kind) -> Any:
        """Return the buffer of values or of gradients, current, as an array of the GPU; the caller may change it.

        Nothing that was begun before changes it any more, and the caller has done everything when he asks the holder,
        or the engine that it belongs to, for anything.
        """
        ...


class _Common:
    """What all stores of the same parameters have in common: the buffers, and who holds their numbers."""

    def __init__(self, values: FloatArray) -> None:
        self.values = values
        self.gradients: FloatArray | None = None
        self.touched: dict[Parameter, NDArray[np.bool_]] = {}
        self.holder: Holder | None = None


class _Collect:
    """Makes the value of a parameter in a store current."""

    def __init__(self, store: ParameterStore) -> None:
        self.store = store

    def __call__(self) -> None:
        self.store._recall("values")


class ParameterStore:
    """Values, gradients and learner slots of a network's parameters.

    Learned parameters come first, those with equal multipliers together, so that an update is one pass over few runs.
    Each parameter's ``value`` becomes a view of the buffer, so the network sees every update. What is made for
    parameters that are in a store already (:meth:`of`) has slots and state of its own beside the same buffers.

    Args:
        parameters: each with its value.
        dtype: float32 or float64.

    Attributes:
        size: elements of each buffer.
        learned_size: elements up to the first parameter that is not learned; all learned ones lie before it.
        state: the numbers that the learner keeps from step to step, by name.
        turn: whoever has it evaluates the network; stores of the same parameters have the same.
    """

    def __init__(self, parameters: Iterable[Parameter], dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        ordered = sorted(
            parameters,
            key=lambda p: (not p.learned, p.learning_rate_multiplier, p.regularization_multiplier),
        )
        self.parameters: tuple[Parameter, ...] = tuple(ordered)
        self._range: dict[Parameter, tuple[int, int]] = {}
        step = ALIGNMENT // self.dtype.itemsize
        offset = 0
        for parameter in self.parameters:
            count = elements(parameter.known_shape)
            self._range[parameter] = (offset, offset + count)
            offset += -(-count // step) * step
        self.size = offset
        fixed = (self._range[parameter][0] for parameter in self.parameters if not parameter.learned)
        self.learned_size = next(fixed, offset)
        self._common, self.turn = _Common(self._allocate()), Lock()
        self._forget()
        for parameter in self.parameters:
            self._take_in(parameter)

    @classmethod
    def of(cls, parameters: Iterable[Parameter], dtype: Any) -> ParameterStore:
        """Return a store of the numbers that parameters have, wherever they are: in other stores, too, or in none.

        All stores of a network then see each update. Values that somebody has put into parameters meanwhile count.
        """
        wanted = tuple(parameters)
        found = {one.collect.store if isinstance(one.collect, _Collect) else None for one in wanted}
        there = found.pop() if len(found) == 1 else None
        if there is None or there.dtype != np.dtype(dtype) or not all(map(there._has_place, wanted)):
            return cls(wanted, dtype)
        for parameter in wanted:
            value = parameter.value
            if value is not None and not np.shares_memory(value, there._common.values):
                there._recall("values")
                there._take_in(parameter)
        made = copy.copy(there)
        made._forget()
        return made

    def _has_place(self, parameter: Parameter) -> bool:
        """Whether a parameter that is learned now was so when the buffers were laid out."""
        return not parameter.learned or self._range[parameter][0] < self.learned_size

    def _forget(self) -> None:
        """Have no slots and no state."""
        self._slots: dict[str, FloatArray] = {}
        self.state: dict[str, float] = {}
        self._initial: dict[str, float] = {}

    def _take_in(self, parameter: Parameter) -> None:
        view = self._view(self._common.values, parameter)
        assert parameter.value is not None, f"parameter '{parameter.name}' has no value"
        view[...] = parameter.value.reshape(parameter.known_shape)
        parameter.collect = None  # it leaves the store in which it was
        parameter.value = view
        parameter.collect = _Collect(self)

    @property
    def holder(self) -> Holder | None:
        """Who holds the numbers now (:meth:`hold`), None if they are here."""
        return self._common.holder

    def hold(self, holder: Holder) -> None:
        """Let somebody hold the numbers from now on; who held them before gives all of them back.

        The holder is told whenever somebody asks for an array here, or for a parameter's ``value``. Views that were
        taken earlier are stale while it holds newer numbers.
        """
        if self.holder is not holder:
            for kind in get_args(Kind):
                self._recall(kind)
            self._common.holder = holder

    def _allocate(self) -> FloatArray:
        # NumPy aligns to 16 or 64 bytes depending on the size; a margin makes the alignment certain.
        # Zeroed pages are handed out lazily by the system, so a buffer that is never touched costs nothing.
        raw = np.zeros(self.size * self.dtype.itemsize + ALIGNMENT, np.uint8)
        skip = -raw.ctypes.data % ALIGNMENT
        return raw[skip : skip + self.size * self.dtype.itemsize].view(self.dtype)

    @property
    def values(self) -> FloatArray:
        """All parameters."""
        self._recall("values")
        return self._common.values

    @values.setter
    def values(self, array: FloatArray) -> None:
        # What changes the buffer in place (``values += 1``) ends in an assignment of itself.
        if array is not self._common.values:
            self._common.values[...] = array

    @property
    def gradients(self) -> FloatArray:
        """The gradient buffer, made when it is first asked for."""
        self._recall("gradients")
        return self._made_gradients()

    def gradients_in_place(self) -> Any:
        """The gradient buffer where it lies: on a GPU, if somebody holds it there and lends it, else here."""
        return self.holder.lend("gradients") if isinstance(self.holder, Lender) else self.gradients

    @property
    def slots(self) -> dict[str, FloatArray]:
        """The learner's arrays, by name."""
        self._recall("slots")
        return self._slots

    def _recall(self, kind: Kind) -> None:
        if self.holder is not None:
            self.holder.give_back(kind)

    def raw(self, kind: Kind) -> dict[str, FloatArray]:
        """The arrays of a kind as they are here, for the holder: the slots by name, others under the kind's name."""
        if kind == "slots":
            return self._slots
        return {kind: self._common.values if kind == "values" else self._made_gradients()}

    def _made_gradients(self) -> FloatArray:
        if self._common.gradients is None:
            self._common.gradients = self._allocate()
        return self._common.gradients

    def add_slots(self, slots: Iterable[Slot]) -> None:
        """Make the learner's slots that are not there yet, with their initial values."""
        for slot in slots:
            if slot.name not in self._slots:
                self._slots[slot.name] = self._allocate()
                self._initial[slot.name] = slot.initial
                if slot.initial:
                    self._slots[slot.name].fill(slot.initial)

    def reset_slots(self) -> None:
        """Let the learner begin anew: all slots get their initial values again, and its numbers are forgotten."""
        for name, initial in self._initial.items():
            self.slots[name].fill(initial)
        self.state.clear()

    def range(self, parameter: Parameter) -> tuple[int, int]:
        """First and past-the-end element of a parameter in every buffer."""
        return self._range[parameter]

    def value(self, parameter: Parameter) -> FloatArray:
        """The parameter's value: a view with its shape (memory order)."""
        return self._view(self.values, parameter)

    def gradient(self, parameter: Parameter) -> FloatArray:
        """The parameter's gradient: a view with its shape."""
        return self._view(self.gradients, parameter)

    def slot(self, name: str, parameter: Parameter) -> FloatArray:
        """A learner slot of a parameter: a view with its shape."""
        return self._view(self.slots[name], parameter)

    def _view(self, buffer: FloatArray, parameter: Parameter) -> FloatArray:
        first, end = self._range[parameter]
        return buffer[first:end].reshape(parameter.known_shape)

    def touched(self, parameter: Parameter, rows: int) -> NDArray[np.bool_]:
        """Which of a parameter's rows a sparse gradient has come to since the last update: an array to read and change.

        Args:
            parameter: one of ``Plan.sparse``.
            rows: how many it has.
        """
        if parameter not in self._common.touched:
            self._common.touched[parameter] = np.zeros(rows, np.bool_)
        return self._common.touched[parameter]

    def take_touched(self, parameter: Parameter, rows: int) -> NDArray[np.intp]:
        """Return the indices of the touched rows and of those whose gradient is not zero; none is touched afterwards.

        What others added to the gradient (parts of a minibatch, other ranks) counts even if they did not say where.
        """
        touched = self.touched(parameter, rows)
        found = np.flatnonzero(touched | self.gradient(parameter).reshape(rows, -1).any(axis=1))
        touched[...] = False
        return found

    def forget_gradients(self, parameters: Iterable[Parameter]) -> None:
        """Clear gradients that no update took, and what :meth:`touched` noted of them."""
        for parameter in parameters:
            self.gradient(parameter)[...] = 0.0
            if parameter in self._common.touched:
                self._common.touched[parameter][...] = False

    def snapshot(self) -> dict[str, FloatArray]:
        """Copies of the values, slots and state, by name; what a roll-back needs."""
        slots = {f"slot.{name}": slot.copy() for name, slot in self.slots.items()}
        state = {f"{_STATE}{name}": np.float64(number).reshape(1) for name, number in self.state.items()}
        return {"values": self.values.copy(), **slots, **state}

    def restore(self, arrays: Mapping[str, FloatArray]) -> None:
        """Take back what :meth:`snapshot` gave."""
        self.values[...] = arrays["values"]
        for name, slot in self.slots.items():
            slot[...] = arrays[f"slot.{name}"]
        self.state = {
            name.removeprefix(_STATE): float(array[0]) for name, array in arrays.items() if name.startswith(_STATE)
        }
