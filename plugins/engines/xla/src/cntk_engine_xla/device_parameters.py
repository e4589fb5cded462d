"""Where parameters and slots live while a program runs: on the device. The store gets them back when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from cntk_core.api import Parameter, ParameterStore, Plan, UpdateRule
from cntk_engine_xla.lowering import Array
from cntk_engine_xla.transfers import on_device


class DeviceParameters:
    """Parameters and slots as arrays of JAX.

    Args:
        plan: says which parameters are read and trained.
        store: where they come from and go back to.
        rule: whose slots are kept, for training.

    Attributes:
        trained: values of the trained parameters, in the plan's order.
        slots: of each of these, in the rule's order; nothing without a rule.
        here: whether everything is here; if not, it has to be borrowed first.
    """

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None) -> None:
        self._store = store
        self._trained = plan.trained
        self._place = {parameter: place for place, parameter in enumerate(plan.trained)}
        self._others = [node for node in plan.parameters if isinstance(node, Parameter) and node not in self._place]
        self._names = tuple(slot.name for slot in rule.slots) if rule is not None else ()
        self.here = False
        self._updated = False
        self._changed: set[Parameter] = set()
        self._values: dict[Parameter, Array] = {}
        self.trained: tuple[Array, ...] = ()
        self.slots: tuple[tuple[Array, ...], ...] = ()
        if rule is not None:
            store.add_slots(rule.slots)

    def borrow(self) -> None:
        """Get everything from the store."""
        store = self._store
        # Copies: the arrays are given to functions that write over them.
        self.trained = tuple(on_device(store.value(parameter)) for parameter in self._trained)
        self.slots = tuple(
            tuple(on_device(store.slot(name, parameter)) for name in self._names) for parameter in self._trained
        )
        self._values = {parameter: on_device(store.value(parameter)) for parameter in self._others}
        store.hold(self)
        self.here = True

    def value(self, parameter: Parameter) -> Array:
        """The present value of a parameter."""
        place = self._place.get(parameter)
        return self._values[parameter] if place is None else self.trained[place]

    def update(self, trained: tuple[Array, ...], slots: tuple[tuple[Array, ...], ...]) -> None:
        """Take new values and slots of all trained parameters."""
        self.trained, self.slots, self._updated = trained, slots, True

    def change(self, values: Mapping[Parameter, Array]) -> None:
        """Take new values of some parameters."""
        for parameter, array in values.items():
            place = self._place.get(parameter)
            if place is None:
                self._values[parameter] = array
                self._changed.add(parameter)
            else:
                self.trained = (*self.trained[:place], array, *self.trained[place + 1 :])
                self._updated = True

    def give_back(self, kind: Literal["values", "gradients", "slots"]) -> None:
        """Write what has changed into the store, and keep nothing. Gradients are never here."""
        if self.here and kind != "gradients":
            self._give_back()

    def _give_back(self) -> None:
        store, values, changed = self._store, self._values, self._changed
        trained, slots, updated = self.trained, self.slots, self._updated
        # First of all: the store asks its holder again whenever it is asked for an array.
        self._values, self._changed, self.trained, self.slots = {}, set(), (), ()
        self.here = self._updated = False
        for parameter in changed:
            store.value(parameter)[...] = np.asarray(values[parameter])
        if updated:
            for parameter, array in zip(self._trained, trained, strict=True):
                store.value(parameter)[...] = np.asarray(array)
            for parameter, arrays in zip(self._trained, slots, strict=True):
                for name, array in zip(self._names, arrays, strict=True):
                    store.slot(name, parameter)[...] = np.asarray(array)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept on the device."""
        arrays = [*self._values.values(), *self.trained, *(array for each in self.slots for array in each)]
        return sum(int(array.nbytes) for array in arrays)
