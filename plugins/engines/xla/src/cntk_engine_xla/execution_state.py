"""ExecutionState: what the units of a program work on, one after the other."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from cntk_core.api import Input, Node, Parameter, UpdateRule
from cntk_core.api.engines import Interpreter, PlanProgram
from cntk_engine_xla.device_parameters import DeviceParameters
from cntk_engine_xla.lowering import Array
from cntk_engine_xla.sizes import Sizes
from cntk_engine_xla.staging import Staging
from cntk_engine_xla.table import Lowerings
from cntk_engine_xla.totals import Totals
from cntk_engine_xla.transfers import on_device
from cntk_engine_xla.value_cache import ValueCache


@attrs.frozen(eq=False)
class ExecutionState:
    """What a program's units read, and where they put what they compute.

    Attributes:
        program: whose axes, carried state and random streams count.
        rule: of the update.
        dtype: of the program.
        sizes: of the dynamic axes.
        parameters: parameters and slots.
        totals: sums of the scalar roots.
        values: of nodes, between units.
        gradients: of nodes, between units.
        saved: what the forward part of a node keeps for its gradient in a later unit.
        interpreter: computes what the host computes.
        sparse: the inputs that compiled functions take as sparse rows.
        lowerings: how nodes become XLA.
        staging: where minibatches wait for XLA.
    """

    program: PlanProgram
    rule: UpdateRule | None
    dtype: np.dtype[Any]
    sizes: Sizes
    parameters: DeviceParameters
    totals: Totals
    values: ValueCache
    gradients: ValueCache
    interpreter: Interpreter
    sparse: frozenset[Node]
    lowerings: Lowerings
    staging: Staging = attrs.field(factory=Staging)
    saved: dict[Node, Any] = attrs.field(factory=dict)
    _constants: dict[Node, Array] = attrs.field(factory=dict)

    def value(self, node: Node) -> Array:
        """What a compiled function reads of a node."""
        if isinstance(node, Parameter):
            return self.parameters.value(node)
        if node.value is None or isinstance(node, Input):
            return self.values.take(node)
        found = self._constants.get(node)
        if found is None:
            found = self._constants[node] = on_device(node.value.reshape(node.known_shape), self.dtype)
        return found

    def clear(self) -> None:
        """Forget the minibatch before."""
        for cache in (self.values, self.gradients):
            cache.host.clear()
            cache.device.clear()
        self.saved.clear()
        self.interpreter.contexts.clear()
