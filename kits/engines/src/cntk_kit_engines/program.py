"""PlanProgram: what the programs of all engines do alike, whatever computes their values."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.engine import Program, ProgramState, no_gradients
from cntk_core.errors import DataError, NetworkError, did_you_mean
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.random import random_stream, stream_key
from cntk_core.ops.language.shapes import elements, longest_axes, with_lengths
from cntk_core.plan.plan import AnyStep, Plan, layout_of_root
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch
from cntk_kit_engines.axes import Axes
from cntk_kit_engines.remaking import MadeOf, remains_of

R = TypeVar("R")

Told: TypeAlias = Callable[[AnyStep | None, int, int], None]
"""Is told a step, None for the update, and when it began and ended, in nanoseconds of ``time.perf_counter_ns``."""


class PlanProgram(Program):
    """A program with the records that every engine keeps: axes, contexts of ops, carried state, totals.

    An engine that follows it computes values, and fetches them for :meth:`fetch`.

    Args:
        plan: what to compute.
        seed: keys the random streams.

    Attributes:
        axes: the dynamic axes of the present minibatch.
        carried: by node, what it keeps from one minibatch to the next.
        scalars: the roots that are summed into totals.
        totals: their sums since they were last read, by name.
        place: the number of each node in the network, which keys its random stream.
        made_of: what it was compiled of, by which it is pickled; :func:`~cntk_kit_engines.compiling.compiles` sets it.
        told: who wants to know what each step takes, set before anything is computed; usually nobody.
    """

    made_of: MadeOf | None = None
    told: Told | None = None

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.made_of is None else remains_of(self, self.made_of)

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.settings: dict[str, float] = {}
        self.step = 0
        self.seed = seed
        self.axes = Axes(plan)
        self.carried: dict[Node, dict[str, Any]] = {}
        self.scalars = tuple(node for node in plan.roots if is_total(node))
        self.totals: dict[str, float] = {node.name: 0.0 for node in self.scalars}
        self.place = {node: index for index, node in enumerate(plan.network)}
        self._kept = self._reached = -1  # the minibatches whose values are kept, and whose gradients are there

    def begin_epoch(
        self, epoch: int, settings: Mapping[str, float] | None = None, *, minibatches_done: int = 0
    ) -> None:
        """Start an epoch; nothing is carried into it."""
        super().begin_epoch(epoch, settings, minibatches_done=minibatches_done)
        self.carried.clear()

    @abstractmethod
    def fetch(self, node: Node) -> NDArray[Any] | None:
        """Return a root's value ``(frames, *shape)`` of the last run, not to be changed; None if there was no run."""

    def value(self, name: str) -> NDArray[Any]:
        """Return a copy of a root's value ``(frames, *shape)`` after the last run.

        Raises:
            NetworkError: the plan has no such root, or nothing has been computed yet.
        """
        node = self._named(name, self.plan.roots, "root")
        found = self.fetch(node)
        if found is None:
            raise NetworkError(f"the root '{node.name}' has not been computed yet")
        return np.array(found)

    # -- gradients by any nodes ---------------------------------------------------------------------------

    def forward(self, minibatch: Minibatch, *, training: bool = True) -> None:
        """Run the forward part, and keep what gradients need.

        Raises:
            NetworkError: the plan was made without nodes by which gradients are wanted.
        """
        if not self.plan.by:
            raise NetworkError("the plan has no gradients to go back for: it was made without nodes to take them by")
        self._kept = self._reached = -1
        self.run_forward(minibatch, training=training)
        self.step += training
        self._kept = self.axes.begun

    def backward(self, seeds: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Let gradients flow back from the roots.

        Raises:
            NetworkError: no forward run is kept, or there is no such root.
            DataError: a seed has another shape than its root.
        """
        if self._kept != self.axes.begun:
            raise NetworkError(
                "there is nothing to go back through",
                hint="Call forward with a minibatch first; evaluate keeps nothing.",
            )
        given = None
        if seeds is not None:
            given = {self._named(name, self.plan.roots, "root"): seed for name, seed in seeds.items()}
        self.run_backward({node: self._seed(node, given) for node in self.plan.seeded})
        self._reached = self._kept

    def gradient(self, name: str) -> NDArray[Any]:
        """Return a copy of the gradient by a node, of the shape of its value.

        Raises:
            NetworkError: the plan has no gradient by it, or nothing has flown back yet.
        """
        node = self._named(name, self.plan.by, "gradient by")
        if self._reached != self.axes.begun:
            raise NetworkError(f"the gradient by '{node.name}' has not been computed yet")
        found = self.fetch_gradient(node)
        return np.zeros(self.shape_of(node), self.plan.network.dtype) if found is None else np.array(found)

    def run_forward(self, minibatch: Minibatch, *, training: bool) -> None:
        """Compute all roots, and keep what the gradients look at and what ops keep for them."""
        raise no_gradients(self)

    def run_backward(self, seeds: Mapping[Node, NDArray[Any]]) -> None:
        """Compute the gradients from those of all ``plan.seeded``, of the shapes of their values.

        Those of parameters go into the store.
        """
        raise no_gradients(self)

    def fetch_gradient(self, node: Node) -> NDArray[Any] | None:
        """Return the gradient by a node of ``plan.by``, of its shape, not to be changed; None if it is zero."""
        raise no_gradients(self)

    def _seed(self, node: Node, seeds: Mapping[Node, NDArray[Any]] | None) -> NDArray[Any]:
        shape = self.shape_of(node)
        seed = np.asarray(1.0 if seeds is None else seeds.get(node, 0.0))
        if seed.ndim and seed.shape != shape:
            raise DataError(f"the seed of '{node.name}' has the shape {seed.shape}; its value is {shape}")
        return np.broadcast_to(seed, shape)

    def _named(self, name: str, among: Sequence[Node], what: str) -> Node:
        node = next((each for each in among if each.name.lower() == name.lower()), None)
        if node is None:
            guess = did_you_mean(name, [each.name for each in among])
            raise NetworkError(f"the plan has no {what} '{name}'{guess}")
        return node

    def shape_of(self, node: Node) -> tuple[int, ...]:
        """Return the shape of a node's value in this minibatch, its frames included."""
        sample = with_lengths(node.known_shape, self.axes.longest(longest_axes(node.known_shape)))
        return (self.axes.frames[node.axis], *sample) if node.framed else sample

    # -----------------------------------------------------------------------------------------------------

    def layout(self, name: str) -> SequenceLayout:
        """Return the sequences of a root's dynamic axis in the last run.

        Raises:
            NetworkError: there is no such root, or it has none.
        """
        return layout_of_root(self.plan, name, self.axes.layouts)

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        totals = self.totals
        self.totals = dict.fromkeys(totals, 0.0)
        return totals

    def state(self) -> ProgramState:
        """Return what goes on from one minibatch to the next."""
        carried = {node.name: dict(kept) for node, kept in self.carried.items() if kept}
        return ProgramState(carried, dict(self.totals))

    def restore(self, state: ProgramState) -> None:
        """Go on from such a state."""
        nodes = {node.name: node for node in self.plan.network}
        self.carried = {nodes[name]: dict(kept) for name, kept in state.carried.items() if name in nodes}
        self.totals = {name: state.totals.get(name, 0.0) for name in self.totals}

    def check_training(self) -> None:
        """Make sure that the plan has gradients.

        Raises:
            NetworkError: it was made without a criterion.
        """
        if not self.plan.training:
            raise NetworkError("the plan has no gradients: it was made without a criterion")

    def needed_rule(self, rule: R | None) -> R:
        """Return the update rule, or what an engine has made of it.

        Raises:
            NetworkError: there is none.
        """
        if rule is None:
            raise NetworkError("the program was compiled without an update rule")
        return rule

    def make_context(self, node: Node, *, training: bool) -> OpContext:
        """Return a context for a node in the present minibatch."""
        framed = tuple(bool(child.framed) for child in node.inputs)
        context = OpContext(framed=framed, frames=self.axes.rows_for(node))
        self.set_context(context, node, training=training)
        return context

    def set_context(self, context: OpContext, node: Node, *, training: bool) -> None:
        """Put into a node's context what differs from one minibatch to the next."""
        context.training = training
        context.settings = self.settings
        self.axes.place(context, node)
        context.carried = self.carried.setdefault(node, {})
        if node.op.random:
            key = stream_key(self.seed, self.place[node], node.attributes)
            context.random = functools.partial(random_stream, *key, self.step)


def is_total(node: Node) -> bool:
    """Whether a root is a number that is summed over minibatches."""
    return not node.framed and elements(node.known_shape) == 1 and not isinstance(node, Input | Parameter)
