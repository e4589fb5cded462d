"""Programs: what an engine has compiled of functions, kept with the function that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from cntk._graph.errors import GraphError, told
from cntk._graph.infer import check_types
from cntk._graph.lower import lower
from cntk._graph.primitive import Primitive, postorder
from cntk_core.api import Network, Node
from cntk_core.api.training import Model

if TYPE_CHECKING:
    from cntk.variables import Variable

_ENGINE: dict[str, Any] = {}
_DEBUG: dict[str, Any] = {"look": None, "generation": 0}


class Onlooker(Protocol):
    """Is shown what is computed."""

    def values(self, given: Mapping[Variable, Any], found: Mapping[Variable, Any]) -> None:
        """See values of variables, and of what they were computed."""

    def gradients(self, root: Variable, found: Mapping[Variable, Any]) -> None:
        """See gradients of a variable by others."""

    def ahead(self, root: Variable, given: Mapping[Variable, Any], by: Sequence[Variable]) -> None:
        """Look ahead before something is learned, at the loss and at gradients of it."""


def look_on(onlooker: Onlooker | None) -> None:
    """Have somebody look on, or nobody."""
    _DEBUG["look"] = onlooker


def onlooker() -> Onlooker | None:
    """Return whoever looks on."""
    found: Onlooker | None = _DEBUG["look"]
    return found


@contextmanager
def looked_away() -> Iterator[None]:
    """Let nobody look on meanwhile."""
    before, _DEBUG["look"] = _DEBUG["look"], None
    try:
        yield
    finally:
        _DEBUG["look"] = before


def generation() -> int:
    """Return a number that changes when all that was compiled is to be compiled again."""
    found: int = _DEBUG["generation"]
    return found


def compile_again() -> None:
    """Have everything be compiled again when it computes next: somebody begins to measure, or has ended."""
    _DEBUG["generation"] += 1


def use_engine(name: str) -> None:
    """Compute with an engine from now on: ``auto``, ``cpu``, ``xla``, ``cuda``."""
    _ENGINE.clear()
    _ENGINE["name"] = name


def model_of(network: Network) -> Model:
    """Return the model of a network on the engine of this program, which is made once."""
    if "engine" not in _ENGINE:
        import os

        import numpy as np

        drawn = np.random.get_state()  # what an engine imports may draw numbers, which a script's seed is not for
        made = Model(network, engine=_ENGINE.get("name") or os.environ.get("CNTK_ENGINE", "auto"))
        np.random.set_state(drawn)
        _ENGINE.update(engine=made.engine, plugins=made.plugins)
        return made
    return Model(network, engine=_ENGINE["engine"], plugins=_ENGINE["plugins"])


@attrs.define(eq=False)
class Graph:
    """Functions as a network of the core.

    Attributes:
        network: the network; its parameters are those of the functions, and shared with other networks of them.
        nodes: the node of each root and of each leaf that the roots depend on.
        primitives: the functions, with how often each was changed when this was made.
        parameters: the core's parameters, and what holds each.
        model: on the engine of this program.
        scalars: nodes whose values are single numbers, in an array of one element.
        single: names of axes with one step in each sequence, where the original has no sequences.
        programs: what was compiled, by what gradients are wanted of.
        generation: of all that is compiled.
    """

    network: Network
    nodes: dict[Variable, Node]
    primitives: list[tuple[Primitive, int]]
    parameters: list[tuple[Any, Any, Any]]
    model: Model
    scalars: set[Node]
    single: set[str]
    programs: dict[Any, Any] = attrs.field(factory=dict)
    generation: int = attrs.field(factory=generation)

    @classmethod
    def of(cls, roots: Sequence[Variable]) -> Graph:
        """Return the network of some variables; it is kept as long as nothing changes.

        Raises:
            GraphError: something does not fit, or stands for something that is not known.
        """
        last = roots[0]._owner
        kept = {} if last is None else last.programs
        key = tuple(roots)
        found = kept.get(key)
        if isinstance(found, Graph) and found._is_current():
            return found
        made = kept[key] = cls._make(roots)
        return made

    @classmethod
    def _make(cls, roots: Sequence[Variable]) -> Graph:
        primitives = postorder([each._owner for each in roots if each._owner is not None])
        for one in primitives:
            check_types(one)
        with told():
            maker, nodes = lower(roots)
            for node in dict.fromkeys(nodes[each] for each in roots):
                maker.network.mark(node, "output")
            model = model_of(maker.network)
        kept = [(each, each.collect, None if each.learned else each._value) for each in maker.network.parameters]
        stamps = [(one, one.stamp) for one in primitives]
        return cls(maker.network, nodes, stamps, kept, model, maker.scalars, set(maker.single_axes))

    def _is_current(self) -> bool:
        return (
            self.generation == generation()
            and all(one.stamp == stamp for one, stamp in self.primitives)
            and all(
                each.collect is collect and (value is None or each._value is value)
                for each, collect, value in self.parameters
            )
        )

    def tape(self, by: Iterable[Variable] = ()) -> Any:
        """Return what computes the roots and lets gradients flow back to some variables."""
        wanted = tuple(by)
        if wanted not in self.programs:
            names = [self.nodes[each].name for each in wanted]
            roots = [node.name for node in self.network.roots["output"]]
            with told():
                self.programs[wanted] = self.model.differentiable(names, roots)
        return self.programs[wanted]


def forward(
    graph: Graph, by: Iterable[Variable], data: Mapping[str, Any], *, training: bool, keep: bool = False
) -> Any:
    """Compute the roots; return the tape, whose ``values`` are theirs by name.

    Raises:
        GraphError: the data do not fit.
    """
    tape = graph.tape(by)
    with told():
        if keep:
            return tape.keep(data, training=training)
        tape.forward(data, training=training)
    return tape


__all__ = ["Graph", "GraphError", "forward", "model_of", "use_engine"]
