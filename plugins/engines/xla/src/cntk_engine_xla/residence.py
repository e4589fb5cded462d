"""Where parameters and slots live while a program runs: on the device. The store gets them back when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from cntk_core.api import Parameter, ParameterStore, Plan, UpdateRule
from cntk_engine_xla.lowering import Array


class Residence:
    """Parameters and slots as arrays of JAX.

    Args:
        plan: says which parameters are read and trained.
        store: where they come from and go back to.
        rule: whose slots are kept, for training.
    """

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule | None) -> None:
        self._store = store
        self._parameters = [node for node in plan.parameters if isinstance(node, Parameter)]
        self._trained = plan.trained if rule is not None else ()
        self._names = tuple(slot.name for slot in rule.slots) if rule is not None else ()
        self._here = False
        self._changed: set[Parameter] = set()
        self._slots_changed = False
        self.values: dict[Parameter, Array] = {}
        self.slots: dict[Parameter, tuple[Array, ...]] = {}
        if rule is not None:
            store.add_slots(rule.slots)

    def borrow(self) -> None:
        """Get everything from the store, if it is not here."""
        if self._here:
            return
        import jax.numpy as jnp

        store = self._store
        # Copies: the arrays are given to functions that write over them.
        self.values = {parameter: jnp.array(store.value(parameter)) for parameter in self._parameters}
        self.slots = {
            parameter: tuple(jnp.array(store.slot(name, parameter)) for name in self._names)
            for parameter in self._trained
        }
        store.hold(self)
        self._here = True

    def change(self, values: Mapping[Parameter, Array], slots: Mapping[Parameter, tuple[Array, ...]]) -> None:
        """Take new values and slots."""
        self.values.update(values)
        self._changed.update(values)
        if slots:
            self.slots.update(slots)
            self._slots_changed = True

    def give_back(self, kind: Literal["values", "gradients", "slots"]) -> None:
        """Write what has changed into the store, and keep nothing. Gradients are never here."""
        if self._here and kind != "gradients":
            self._give_back()

    def _give_back(self) -> None:
        store = self._store
        values, slots, changed = self.values, self.slots, self._changed
        self.values, self.slots, self._changed, self._here = {}, {}, set(), False
        for parameter in changed:
            store.value(parameter)[...] = np.asarray(values[parameter])
        if self._slots_changed:
            for parameter, arrays in slots.items():
                for name, array in zip(self._names, arrays, strict=True):
                    store.slot(name, parameter)[...] = np.asarray(array)
        self._slots_changed = False

    @property
    def nbytes(self) -> int:
        """Bytes that are kept on the device."""
        arrays = [*self.values.values(), *(array for each in self.slots.values() for array in each)]
        return sum(int(array.nbytes) for array in arrays)
