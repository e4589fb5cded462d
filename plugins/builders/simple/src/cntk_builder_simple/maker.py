"""How nodes are made: names, places in the recipe, first values, and operations that are not installed."""

from __future__ import annotations

from typing import Any

from cntk_builder_simple.options import SimpleOptions
from cntk_core.api import (
    BuildContext,
    CntkError,
    Config,
    Initializer,
    Input,
    Network,
    Node,
    Parameter,
    UnsupportedError,
    from_cntk,
    raise_problems,
)
from cntk_core.api.builders import FixedValue, Random


class Maker:
    """Makes the nodes of one network.

    Attributes:
        chosen: the options of the section.
        network: what is being made.
    """

    def __init__(self, config: Config, chosen: SimpleOptions, context: BuildContext) -> None:
        self.chosen = chosen
        self.network = Network(context.dtype)
        self._config = config
        self._context = context
        self._missing: dict[str, CntkError] = {}
        self._unnamed = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """``layerSizes``: of the input, the hidden layers and the output."""
        return self.chosen.layer_sizes

    @property
    def hidden(self) -> int:
        """Number of hidden layers."""
        return len(self.sizes) - 2

    def finish(self) -> Network:
        """Return the network.

        Raises:
            UnsupportedError, Problems: operations that nothing installed offers.
        """
        raise_problems(list(self._missing.values()))
        return self.network

    # -- leaves -------------------------------------------------------------------------------------------------

    def input(self, name: str, size: int, *, sparse: bool = False, role: str = "", key: str = "layerSizes") -> Node:
        """Make an input of ``size`` rows; ``role`` is its group."""
        where = self._config.location(key)
        made = self.network.add(Input.make(name, (size,), sparse=sparse, where=where))
        if role:
            self.network.mark(made, role)
        return made

    def weights(self, name: str, rows: int, columns: int, key: str = "layerSizes") -> Node:
        """Make a matrix of random first values, as ``uniformInit`` and ``initValueScale`` say."""
        kind = "uniform" if self.chosen.uniform_init else "gaussian"
        return self._parameter(name, (rows, columns), Random(kind, self.chosen.init_value_scale), key)

    def fixed(self, name: str, rows: int, columns: int = 1, value: float = 0.0, key: str = "layerSizes") -> Node:
        """Make a matrix whose first values are all the same; a bias has one column."""
        return self._parameter(name, (rows, columns), FixedValue(value), key)

    def _parameter(self, name: str, dims: tuple[int, int], first: Initializer, key: str) -> Node:
        where = self._config.location(key)
        return self.network.add(Parameter.make(name, from_cntk(dims), first, where=where))

    # -- operations ---------------------------------------------------------------------------------------------

    def node(self, op_name: str, *inputs: Node, name: str = "", key: str = "layerSizes", **attributes: Any) -> Node:
        """Make a node; without a name it is called ``AutoName<n>``, counted from 1 as in the original.

        Args:
            op_name: CNTK's operation name.
            inputs: in the order of the operation.
            name: unique in the network.
            key: the option that asks for the node, for its place in the recipe.
            attributes: of the operation.
        """
        if not name:
            self._unnamed += 1
            name = f"AutoName{self._unnamed}"
        where = self._config.location(key)
        op = self._context.find_op("", op_name)
        if op is None:
            self._missing[op_name] = UnsupportedError(f"the operation '{op_name}' is not there yet", where=where)
            return Input.make(name, (1,))
        return self.network.add(Node(name, op, list(inputs), op.attributes(**attributes), where))

    def delay(self, size: int, steps: int = 1, name: str = "", key: str = "recurrentLayer") -> Node:
        """Make a ``PastValue`` whose input is still to come; see :func:`close`."""
        first = self.chosen.default_hidden_activity
        return self.node(
            "PastValue", name=name, key=key, dims=(size,), time_step=steps, default_hidden_activation=first
        )


def close(loop: Node, value: Node) -> None:
    """Give a delay its input."""
    loop.inputs = [value]
