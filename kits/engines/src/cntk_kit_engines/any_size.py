"""Programs for inputs with free dimensions: one for each size that minibatches bring, made when it first comes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.engine import Program, ProgramState
from cntk_core.errors import CntkError, DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, copies_of
from cntk_core.ops.language.shapes import Free, Shape, fits, is_free, show
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.axes import stream_of
from cntk_kit_engines.program import is_total
from cntk_kit_engines.remaking import MadeOf, is_fused, remains_of

KEPT = 16
"""Sizes whose programs are kept, those that came last."""

Scalars = Mapping[str, float]


def has_free_inputs(plan: Plan) -> bool:
    """Whether inputs of a plan have dimensions whose sizes each minibatch brings."""
    return any(is_free(node.known_shape) for node in plan.inputs)


class AnySizeProgram(Program):
    """Gives each minibatch to the program for its size. All have the same parameters.

    Args:
        compile_plan: makes a program of a plan without free dimensions.
        plan: with free dimensions.

    Attributes:
        made_of: what it was compiled of, by which it is pickled.
    """

    made_of: MadeOf | None = None

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.made_of is None else remains_of(self, self.made_of)

    def __init__(self, compile_plan: Callable[[Plan], Program], plan: Plan) -> None:
        self.plan = plan
        self.settings: dict[str, float] = {}
        self.step = 0
        self._compile = compile_plan
        self._inputs = [node for node in plan.inputs if is_free(node.known_shape)]
        self._programs: OrderedDict[tuple[Shape, ...], Program] = OrderedDict()
        self._last: tuple[tuple[Shape, ...], Program] | None = None
        self._state = ProgramState({}, {node.name: 0.0 for node in plan.roots if is_total(node)})

    # -- the program for a minibatch ----------------------------------------------------------------------

    def _for(self, minibatch: Minibatch) -> Program:
        """The program for a minibatch, as far as the others are.

        Raises:
            DataError: samples do not fit their input; the network has no shape with their sizes.
        """
        key = self._sizes(minibatch)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._made(key)
        self._programs.move_to_end(key)
        self._hand_over(key, program, minibatch)
        while len(self._programs) > KEPT:
            self._note_totals(self._programs.popitem(last=False)[1])
        program.step, program.settings = self.step, self.settings
        self._last = key, program
        return program

    def _made(self, key: Sequence[Shape]) -> Program:
        return self._compile(sized_plan(self.plan, dict(zip(self._inputs, key, strict=True))))

    def _sizes(self, minibatch: Minibatch) -> tuple[Shape, ...]:
        """The sizes of the samples of each input with free dimensions."""
        found: list[Shape] = []
        named: dict[str, tuple[Input, int]] = {}
        for place, node in enumerate(self._inputs):
            stream = stream_of(minibatch, node)
            sizes = tuple(stream.data.shape[1:])
            if not stream.data.shape[0] and self._last is not None and not fits(node.known_shape, sizes):
                sizes = self._last[0][place]  # a rank without a share of the minibatch may not know
            if not fits(node.known_shape, sizes):
                raise DataError(
                    f"the input '{node.name}' is {show(node.known_shape)}, but its stream gives samples of "
                    f"{show(sizes)}"
                )
            for dim, size in zip(node.known_shape, sizes, strict=True):
                if isinstance(dim, Free) and dim.name:
                    other = named.setdefault(dim.name, (node, size))
                    if other[1] != size:
                        raise DataError(
                            f"the dimension '{dim.name}' is {other[1]} in '{other[0].name}' and {size} in '{node.name}'"
                        )
            found.append(sizes)
        return tuple(found)

    def _hand_over(self, key: Sequence[Shape], program: Program, minibatch: Minibatch) -> None:
        """Let a program go on with what nodes kept of the minibatch before, which another had."""
        if self._last is not None and self._last[1] is program:
            return
        before = self._state if self._last is None else self._last[1].state()
        if before is None or not before.carried:
            return
        network = self.plan.network
        carried = {name: kept for name, kept in before.carried.items() if not is_free(network[name].known_shape)}
        lost = next((name for name in before.carried if name not in carried), None)
        if lost is not None and self._last is not None and any(map(_goes_on, minibatch.streams.values())):
            node = self._inputs[0]
            raise DataError(
                f"sequences go on from the minibatch before, where '{node.name}' was {show(self._last[0][0])}; it is "
                f"{show(key[0])} now, and '{lost}' keeps a value of the other size",
                hint="Within a sequence free dimensions keep their sizes.",
            )
        own = program.state()
        program.restore(ProgramState(carried if lost is not None else before.carried, own.totals if own else {}))

    def _note_totals(self, program: Program) -> None:
        totals = dict(self._state.totals)
        for name, value in program.read_totals().items():
            totals[name] += value
        self._state = attrs.evolve(self._state, totals=totals)

    def _current(self, name: str) -> Program:
        if self._last is None:
            raise NetworkError(f"the root '{name}' has not been computed yet")
        return self._last[1]

    # -- the interface of programs ------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, settings: Scalars | None = None, *, minibatches_done: int = 0) -> None:
        """Start an epoch."""
        super().begin_epoch(epoch, settings, minibatches_done=minibatches_done)
        self._state = ProgramState({}, self._state.totals)
        for program in self._programs.values():
            program.begin_epoch(epoch, settings, minibatches_done=minibatches_done)

    def evaluate(self, minibatch: Minibatch) -> None:
        """Run the forward part."""
        self._for(minibatch).evaluate(minibatch)

    def compute_gradients(self, minibatch: Minibatch) -> None:
        """Run forward and backward."""
        program = self._for(minibatch)
        program.compute_gradients(minibatch)
        self.step = program.step

    def update(self, scalars: Sequence[Scalars]) -> None:
        """Apply the rule with the gradients in the store; before any minibatch has come, too."""
        if self._last is None:
            tried = [
                tuple(dim.tried[0] if isinstance(dim, Free) else dim for dim in n.known_shape) for n in self._inputs
            ]
            self._made(tried).update(scalars)
        else:
            self._last[1].update(scalars)

    def train_step(self, minibatch: Minibatch, scalars: Sequence[Scalars]) -> None:
        """Do a whole step."""
        program = self._for(minibatch)
        program.train_step(minibatch, scalars)
        self.step = program.step

    def forward(self, minibatch: Minibatch, *, training: bool = True) -> None:
        """Run the forward part, and keep what gradients need."""
        program = self._for(minibatch)
        program.forward(minibatch, training=training)
        self.step = program.step

    def backward(self, seeds: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Let gradients flow back through what the last forward part has computed; seeds are ``(frames, *shape)``."""
        self._current(self.plan.roots[0].name).backward(seeds)

    def gradient(self, name: str) -> NDArray[Any]:
        """Return a copy of the gradient by a node, of the shape of its value."""
        return self._current(name).gradient(name)

    def value(self, name: str) -> NDArray[Any]:
        """Return a copy of a root's value ``(frames, *shape)`` after the last run."""
        return self._current(name).value(name)

    def layout(self, name: str) -> SequenceLayout:
        """Return the sequences of a root's dynamic axis in the last run."""
        return self._current(name).layout(name)

    def read_totals(self) -> Mapping[str, float]:
        """Return the sums of the scalar roots since the last call, and set them to zero."""
        for program in self._programs.values():
            self._note_totals(program)
        totals = self._state.totals
        self._state = attrs.evolve(self._state, totals=dict.fromkeys(totals, 0.0))
        return totals

    def state(self) -> ProgramState | None:
        """Return what goes on from one minibatch to the next; None if the engine cannot say."""
        for program in self._programs.values():
            self._note_totals(program)
        last = self._state if self._last is None else self._last[1].state()
        return None if last is None else ProgramState(last.carried, dict(self._state.totals))

    def restore(self, state: ProgramState) -> None:
        """Go on from such a state."""
        for program in self._programs.values():
            program.read_totals()
        self._last, self._state = None, state

    def memory(self) -> int:
        """Bytes that all programs hold."""
        return sum(program.memory() for program in self._programs.values())

    def remarks(self) -> Sequence[str]:
        """What the programs have to say."""
        return list(dict.fromkeys(line for program in self._programs.values() for line in program.remarks()))


def _goes_on(stream: StreamData) -> bool:
    """Whether sequences of a stream go on from the minibatch before."""
    layout = stream.layout
    return int(np.count_nonzero(layout.begins[:, 1] == 0)) < int(np.count_nonzero(layout.lengths))


def sized_plan(plan: Plan, sizes: Mapping[Node, Shape]) -> Plan:
    """Return a plan of the same network with fixed dimensions. Parameters are the same nodes.

    Args:
        plan: with free dimensions.
        sizes: of the samples of the inputs that have such.

    Raises:
        DataError: the network has no shape with these sizes; with the node and its place.
    """
    copies = copies_of(plan.network, share_parameters=True)
    for node, made in copies.items():
        if node in sizes:
            made.shape = sizes[node]
        elif made is not node and made.inputs and made.value is None:
            made.shape = made.framed = None
    network, needed = Network(plan.network.dtype), Network(plan.network.dtype)
    for made in copies.values():
        network.add(made)
    for node in plan.network.order(plan.roots, stop_at_constants=True):
        needed.add(copies[node])
    try:
        needed.infer()
    except CntkError as error:
        told = " and ".join(f"'{node.name}' is {show(shape)}" for node, shape in sizes.items())
        raise DataError(f"in a minibatch where {told}: {error.message}", where=error.where, hint=error.hint) from None
    network.roots = {role: [copies[node] for node in group] for role, group in plan.network.roots.items()}
    roots = [copies[node] for node in plan.roots]
    criterion = copies[plan.criterion] if plan.criterion is not None else None
    by, learn = [copies[node] for node in plan.by], plan.trained or None
    return make_plan(network, roots, criterion, learn=learn, by=by, fuse=is_fused(plan))
