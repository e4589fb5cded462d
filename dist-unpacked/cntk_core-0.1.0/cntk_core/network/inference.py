"""Shapes and dynamic axes of nodes from those of their inputs; in loops from what is known of them.

In a loop no node has all its inputs' shapes at first. What a node will be is therefore guessed from the inputs that are
known (an op's ``guess``, a delay's declared dimensions), guesses are passed on until nothing changes any more, and then
every node is checked as outside loops, which also completes the parameters in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from heapq import heappop, heappush

import attrs

from cntk_core.errors import CntkError, NetworkError, ShapeError
from cntk_core.network.cropping import locate_crop
from cntk_core.network.node import BATCH, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.open_shapes import complete_shapes, infer_shape
from cntk_core.ops.language.shapes import (
    Free,
    Longest,
    Shape,
    elements,
    from_cntk,
    is_free,
    longest_axes,
    samples_axis,
    show,
)

MOST_CHANGES = 20
"""How often a guess may change before the loop counts as one without a solution."""


def is_delay(node: Node) -> bool:
    """Whether a node reads another time step of its first input."""
    return node.op.traits.delay != 0


def shift_of(node: Node) -> int:
    """Return how many steps back a delay reads; negative numbers look ahead."""
    return int(node.op.traits.delay * node.attributes.time_step)


@attrs.frozen
class Guess:
    """What is known of a node in a loop: its shape, if anything, and its dynamic axis (None: it has none)."""

    shape: Shape | None = None
    axis: str | None = None


def infer_node(node: Node) -> None:
    """Set a node's shape and dynamic axis, and complete the parameters among its inputs.

    Raises:
        ShapeError, NetworkError: the inputs do not fit; with the node's name and place.
    """
    if node.op.role in ("input", "parameter", "placeholder"):
        return
    _begin(node)
    shapes: list[Shape] = [child.known_shape for child in node.inputs]
    try:
        if node.op.complete is not None and any(0 in shape for shape in shapes):
            shapes = list(complete_shapes(node.op, shapes, node.attributes))
            _complete_parameters(node, shapes)
        locate_crop(node)
        _locate(node, lambda child: child.shape)
        axes = [child.axis for child in node.inputs]
        node.shape = _unpacked(node.op, infer_shape(node.op, shapes, node.attributes), axes)
    except ShapeError as error:
        operands = ", ".join(f"{child.name} {show(child.known_shape)}" for child in node.inputs)
        hint = error.hint or (f"Inputs: {operands}" if operands else None)
        raise ShapeError(f"{node.op.name} '{node.name}': {error.message}", where=node.where, hint=hint) from None
    except CntkError as error:
        error.where = error.where or node.where
        raise
    _check_axes(node)
    _check_updated(node)
    inputs = [Guess(child.shape, child.axis if child.framed else None) for child in node.inputs]
    _set_axis(node, _axis(node, inputs))


def _unpacked(op: Op, shape: Shape, axes: Sequence[str | None]) -> Shape:
    """Return a shape with the static axis that an op makes of the dynamic axis of its first input, if it does."""
    return (Longest(axes[0] or "", op.reduces_frames), *shape) if op.unpacks else shape


def _locate(node: Node, known: Callable[[Node], Shape | None]) -> None:
    """Let a node know what it has to of its first input, with what is known of the shapes of that one's inputs."""
    if node.op.located is not None:
        source = node.inputs[0]
        shapes = list(map(known, source.inputs))
        try:
            node.attributes = node.op.located(node.attributes, source.op, source.attributes, shapes)
            node.op = node.op.form_of(node.attributes)
        except NetworkError as error:
            error.message, error.where = f"{node.op.name} '{node.name}': {error.message}", node.where
            raise


def _set_axis(node: Node, axis: str | None) -> None:
    node.framed = axis is not None
    node.axis = axis or ""


def _begin(node: Node) -> None:
    """Have the record of the node's op that its attributes ask for, and as many inputs as that takes."""
    node.op = node.op.form_of(node.attributes)
    fewest, most = node.op.arity
    count = len(node.inputs)
    if count < fewest or (most is not None and count > most):
        wanted = str(fewest) if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise NetworkError(f"{node.op.name} '{node.name}' takes {wanted} inputs, not {count}", where=node.where)


def _complete_parameters(node: Node, shapes: Sequence[Shape]) -> None:
    for child, shape in zip(node.inputs, shapes, strict=True):
        if isinstance(child, Parameter) and 0 in child.known_shape:
            child.shape = tuple(shape)


def _check_updated(node: Node) -> None:
    """What an op changes by itself, such as running statistics, has to be kept somewhere: in a parameter."""
    if node.op.traits.assigns and node.inputs[1].framed:
        raise NetworkError(
            f"{node.op.name} '{node.name}': '{node.inputs[1].name}' has a value for each frame, and a parameter one",
            where=node.where,
            hint="Reduce it first, to its sum or mean over the frames.",
        )
    for index in sorted(node.op.updates | ({0} if node.op.traits.assigns else frozenset())):
        child = node.inputs[index] if index < len(node.inputs) else None
        if child is not None and not isinstance(child, Parameter):
            raise NetworkError(
                f"input {index + 1} of {node.op.name} '{node.name}' is {child.op.name} '{child.name}', which cannot "
                "keep what is counted",
                where=node.where,
                hint="Give a parameter with learningRateMultiplier=0.",
            )


# -- dynamic axes -----------------------------------------------------------------------------------------


def _axis(node: Node, inputs: Sequence[Guess]) -> str | None:
    """The dynamic axis of a node with inputs of which this is known; None if it has none."""
    op, axes = node.op, [guess.axis for guess in inputs]
    if op.makes_axis(inputs[0].shape if inputs else None, node.attributes):
        return str(getattr(node.attributes, "dynamic_axis_name", "") or node.name)
    if op.reduces_frames:
        return None
    if op.axis_of is not None:
        return axes[op.axis_of]
    if op.new_axis:
        returned = samples_axis(inputs[0].shape or ())
        if returned is not None:
            return returned
    # With samples meets what has, by the data, one frame for each of them.
    return BATCH if BATCH in axes else next((axis for axis in axes if axis is not None), None)


def _check_axes(node: Node) -> None:
    along = frozenset({0}) if is_delay(node) else node.op.along_sequences
    for index in sorted(along):
        child = node.inputs[index] if index < len(node.inputs) else None
        if child is not None and (not child.framed or child.axis == BATCH):
            raise NetworkError(
                f"{node.op.name} '{node.name}' looks along sequences, but its input {child.describe_axes()}",
                where=node.where,
            )
    if node.op.unpacks and not node.inputs[0].framed:
        raise NetworkError(
            f"{node.op.name} '{node.name}' makes an axis of samples, but its input {node.inputs[0].describe_axes()}",
            where=node.where,
        )
    if (
        node.op.relayout is not None
        and not node.inputs[0].framed
        and node.op.makes_axis(node.inputs[0].shape, node.attributes)
    ):
        source = node.inputs[0].name
        raise NetworkError(
            f"{node.op.name} '{node.name}' changes the number of frames, but its input '{source}' has none",
            where=node.where,
        )
    for index in node.op.unframed:
        if index < len(node.inputs) and node.inputs[index].framed:
            raise NetworkError(
                f"input {index + 1} of {node.op.name} '{node.name}', '{node.inputs[index].name}', has a dynamic axis; "
                "it must be a parameter or a constant",
                where=node.where,
            )
    if node.op.axis_of is not None:
        return
    framed = [child for child in node.inputs if child.framed]
    if len({child.axis for child in framed}) < 2:
        return
    framed = [child for child in framed if not _is_found_by_running(child)]
    other = next((child for child in framed if child.axis != framed[0].axis), None)
    if other is not None:
        first, second = framed[0], other
        if second.axis != BATCH == first.axis:
            hint = f"ReconcileDynamicAxis({first.name}, {second.name}) repeats the first for each step of the second."
        elif first.axis != BATCH == second.axis:
            hint = f"ReconcileDynamicAxis({second.name}, {first.name}) repeats the second for each step of the first."
        else:
            hint = (
                f"ReconcileDynamicAxis({first.name}, {second.name}) gives the first the axis of the second, "
                "if their sequences are equally long."
            )
        raise NetworkError(
            f"{node.op.name} '{node.name}': its inputs have different dynamic axes: {first.describe_axes()}, "
            f"{second.describe_axes()}",
            where=node.where,
            hint=hint,
        )


def _is_found_by_running(node: Node) -> bool:
    """Whether a node's sequences come from an operation such as Where: the data decide whether they fit others.

    They do, for instance, where each sequence has its last step taken, and labels have one step.
    """
    seen: set[Node] = set()
    while node not in seen:
        seen.add(node)
        if node.op.makes_axis(node.inputs[0].shape if node.inputs else None, node.attributes):
            return node.op.relayout is None
        if node.op.new_axis and samples_axis(node.inputs[0].shape or ()) is not None:
            return True
        before = node.inputs if node.op.axis_of is None else [node.inputs[node.op.axis_of]]
        node = next((child for child in before if child.framed and child.axis == node.axis), node)
    return False


# -- loops ------------------------------------------------------------------------------------------------


def infer_loop(members: Sequence[Node]) -> list[CntkError]:
    """Set shapes and dynamic axes of the nodes of a loop, and complete its parameters.

    Args:
        members: in the order of computation for one time step, so that a delay stands before what reads it.

    Returns:
        What is wrong.
    """
    try:
        for node in members:
            _begin(node)
        guesses = _Guesses(members)
        guesses.settle()
        guesses.adopt()
    except CntkError as error:
        return [error]
    problems: list[CntkError] = []
    for node in (*(node for node in members if not is_delay(node)), *(node for node in members if is_delay(node))):
        guessed = node.shape
        try:
            infer_node(node)
            if is_delay(node) and node.shape != guessed:
                raise _contradiction(node, guessed)
        except CntkError as error:
            problems.append(error)
            # What comes after it would only repeat the complaint.
            break
    return problems


def _contradiction(delay: Node, guessed: Shape | None) -> ShapeError:
    return ShapeError(
        f"{delay.op.name} '{delay.name}' was taken for {show(guessed or ())}, but its input "
        f"'{delay.inputs[0].name}' becomes {show(delay.known_shape)}: the loop has no consistent dimensions",
        where=delay.where,
    )


class _Guesses:
    """Guesses for the nodes of a loop, passed on until nothing changes."""

    def __init__(self, members: Sequence[Node]) -> None:
        self.members = members
        self.place = {node: index for index, node in enumerate(members)}
        self.found: dict[Node, Guess] = {}
        self.changes = dict.fromkeys(members, 0)
        self.readers = _readers(members, self.place)
        self.waiting = list(range(len(members)))  # a heap

    def settle(self) -> None:
        """Guess until every node has a shape.

        Raises:
            ShapeError: names what cannot be inferred, or says what does not fit.
        """
        self._pass_on()
        while unknown := [node for node in self.members if self._of(node).shape is None]:
            # Only now is a result of one element believed that is known from one element alone.
            if not any(self._update(node, bold=True) for node in unknown):
                self._complain(unknown)
            self._pass_on()

    def _complain(self, unknown: Sequence[Node]) -> None:
        """Say why a node has no shape although its inputs have, or else that the nodes are unknown."""
        self.adopt()
        for node in unknown:
            if all(self._of(child).shape is not None for child in node.inputs):
                infer_node(node)
        raise _unknown(unknown, self.members)

    def adopt(self) -> None:
        """Give the nodes what was guessed of them."""
        for node, guess in self.found.items():
            node.shape = guess.shape
            _set_axis(node, guess.axis)

    def _of(self, node: Node) -> Guess:
        if node in self.place:
            return self.found.get(node, Guess())
        return Guess(node.shape, node.axis if node.framed else None)

    def _pass_on(self) -> None:
        while self.waiting:
            self._update(self.members[heappop(self.waiting)], bold=False)

    def _update(self, node: Node, *, bold: bool) -> bool:
        """Guess a node anew; return whether that changes something."""
        known = [self._of(child) for child in node.inputs]
        old = self._of(node)
        _locate(node, lambda child: self._of(child).shape)
        if is_delay(node):
            shape = _guess_delay(node, known[0].shape)
            if shape is None and bold and len(known) > 1:  # perhaps that of the state before the first step
                shape = known[1].shape
        else:
            shape = _guess_shape(node, known, bold=bold)
        new = Guess(shape or old.shape, _axis(node, known))
        if new == old:
            return False
        self.changes[node] += 1
        if self.changes[node] > MOST_CHANGES:
            raise ShapeError(
                f"the dimensions of {node.op.name} '{node.name}' do not settle: {show(old.shape or ())}, then "
                f"{show(new.shape or ())}",
                where=node.where,
                hint="It grows with every turn of its loop.",
            )
        self.found[node] = new
        for reader in self.readers[node]:
            heappush(self.waiting, reader)
        return True


def _readers(members: Sequence[Node], place: Mapping[Node, int]) -> dict[Node, list[int]]:
    """For each node of a loop, the places of its readers in the loop."""
    readers: dict[Node, list[int]] = {node: [] for node in members}
    for node in members:
        for child in dict.fromkeys(node.inputs):
            if child in place:
                readers[child].append(place[node])
    return readers


def _guess_delay(delay: Node, source: Shape | None) -> Shape | None:
    """A delay is what its input is; before that is known, what was declared, or what it was before an edit."""
    if source is not None:
        return source
    dims = delay.attributes.dims
    if dims and all(dims):
        return from_cntk(dims)
    return delay.shape


def _guess_shape(node: Node, known: Sequence[Guess], *, bold: bool) -> Shape | None:
    """The shape of a node as far as its inputs tell; None if they do not."""
    op, shapes = node.op, [guess.shape for guess in known]
    complete = [shape for shape in shapes if shape is not None]
    # A mistake is reported when everything is known; until then it may be one of the guesses that is wrong.
    if len(complete) == len(shapes):
        with suppress(CntkError):
            if op.complete is not None and any(0 in shape for shape in complete):
                complete = list(complete_shapes(op, complete, node.attributes))
            return _sound(_unpacked(op, infer_shape(op, complete, node.attributes), [guess.axis for guess in known]))
    found = None
    if op.guess is not None:
        with suppress(CntkError):
            found = _sound(op.guess(shapes, node.attributes))
    is_open = found is not None and (longest_axes(found) or is_free(found))
    return found if found is None or bold or is_open or elements(found) > 1 else None


def _sound(shape: Shape | None) -> Shape | None:
    if shape is None or any(dim <= 0 and not isinstance(dim, Longest | Free) for dim in shape):
        return None
    return tuple(shape)


def _unknown(unknown: Sequence[Node], members: Sequence[Node]) -> ShapeError:
    delays = [node for node in members if is_delay(node)]
    names = ", ".join(f"'{node.name}'" for node in unknown[:5])
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    through = ", ".join(f"{node.op.name} '{node.name}'" for node in delays[:3])
    return ShapeError(
        f"the dimensions of {names}{more} cannot be inferred: in their loop each depends on the others",
        where=delays[0].where if delays else unknown[0].where,
        hint=f"Give the dimensions of {through}.",
    )
