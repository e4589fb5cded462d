"""What the binding of a step may use: arrays, products, kernels; and the calls that it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Node, OpContext, Plan
from cntk_core.api.engines import Expr, GradientStep, Loop, Step, ValueSizes, symbol
from cntk_engine_cpu.gemm import Gemm
from cntk_engine_cpu.inputs import Ports
from cntk_engine_cpu.kernels import KernelLibrary

if TYPE_CHECKING:
    from cntk_engine_cpu.channel_numbers import ChannelNumbers
    from cntk_engine_cpu.images import Images
    from cntk_engine_cpu.op_kernels import OpKernel, OpKernels
    from cntk_engine_cpu.sparse import SparseInlet

Array = NDArray[Any]


@attrs.frozen
class Call:
    """A function and the arguments that it is bound to; the straight-line code calls ``function(*arguments)``."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@attrs.frozen(eq=False)
class Affine:
    """A value that is not there itself: ``(data - centre) * factor + shift``.

    Attributes:
        data: ``(rows, columns)`` in some shape, in one piece.
        axes: the last axes of a sample, as it lies in memory, that are the columns.
        channels_last: the data lie channels last.
        centre, factor, shift: ``(columns,)``.
    """

    data: Array
    axes: int
    channels_last: bool
    centre: Array
    factor: Array
    shift: Array

    def tree(self, name: str) -> tuple[Expr, dict[str, tuple[Array, str]]]:
        """The value as an expression, and its operands with their kinds; their names begin with ``name``."""
        arrays = {
            f"{name}x": (self.data, "full"),
            f"{name}c": (self.centre, "row"),
            f"{name}f": (self.factor, "row"),
            f"{name}s": (self.shift, "row"),
        }
        data, centre, factor, shift = map(symbol, arrays)
        return (data - centre) * factor + shift, arrays

    def centred(self, name: str) -> Expr:
        """``data - centre``, with the same names."""
        return symbol(f"{name}x") - symbol(f"{name}c")


def form_of(node: Node) -> tuple[int, ...]:
    """Sample shape without leading ones."""
    shape = node.known_shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


@attrs.frozen(eq=False)
class Formula:
    """A gradient that is not there itself: an expression over arrays, which come by name with their kinds."""

    tree: Expr
    arrays: Mapping[str, tuple[Array, str]]


@attrs.frozen(eq=False)
class Passing:
    """What a gradient step leaves to a later one, which takes it out when it is bound.

    Attributes:
        sums: of a normalized value's gradient ``g``, for each column: of ``g`` and of ``g * (data - centre)``.
        formulas: gradients that the next step computes where it wants them.
        addends: what the next step has to add to a gradient ``(frames, *space, channels)`` that it reads.
    """

    sums: dict[Node, tuple[Array, Array]] = attrs.field(factory=dict)
    formulas: dict[Node, Formula] = attrs.field(factory=dict)
    addends: dict[Node, Array] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Site(ValueSizes):
    """The arrays of a plan for given numbers of frames, and the tools to bind its steps.

    Attributes:
        plan: the plan.
        dtype: precision.
        frames: rows of each dynamic axis.
        ports: the inputs, whose arrays change from minibatch to minibatch.
        values, gradients: arrays ``(frames, *shape)`` or ``shape``, by node. Parameter gradients lie in the store.
        path: for each node through which a gradient flows, which inputs want one.
        gemm, kernels: the tools. ``compiled`` tells whether hand-written kernels are compiled too.
        contexts: what ops see beside their inputs, by node.
        numbers: a number for each node, for names in expression trees.
        scratch: storage that a step keeps beside its value: ``(node, array of its shape, dynamic axis[, what for])``.
        workspace: ``elements -> array``: storage that a step uses while it runs, the same for all.
        images: how values lie, where there are primitives for images.
        sparse: inputs that stay sparse; they have no values.
        step_contexts: for each loop, what its ops kept at each time step of the last forward pass.
        made: values of nodes that make dynamic axes.
        compiled_loops: loops whose forward pass is compiled.
        interpreted: nodes that look at their contexts, above all those that the binding left to :mod:`fallback`.
        affine: values that are computed by those who read them.
        normalized: all normalized values, whoever computes them, and what their gradients want to know.
        passing: what gradient steps leave to the one that comes next.
        absorbed: forward steps that an earlier one does, too.
        longest: the longest sequence of each dynamic axis that is a dimension of a node.
        op_kernels: of ops.
        chosen: which of them computes a node's value.
    """

    plan: Plan
    dtype: np.dtype[Any]
    frames: Mapping[str, int]
    ports: Ports
    values: MutableMapping[Node, Array]
    gradients: Mapping[Node, Array]
    path: Mapping[Node, list[bool]]
    gemm: Gemm
    kernels: KernelLibrary
    contexts: Mapping[Node, OpContext]
    numbers: Mapping[Node, int]
    scratch: Callable[..., Array]
    workspace: Callable[[int], Array]
    op_kernels: OpKernels
    images: Images | None = None
    sparse: Mapping[Node, SparseInlet] = attrs.field(factory=dict)
    step_contexts: dict[Loop, dict[tuple[Node, int], OpContext]] = attrs.field(factory=dict)
    made: dict[Node, Array] = attrs.field(factory=dict)
    compiled_loops: set[Loop] = attrs.field(factory=set)
    interpreted: set[Node] = attrs.field(factory=set)
    affine: dict[Node, Affine] = attrs.field(factory=dict)
    normalized: dict[Node, ChannelNumbers] = attrs.field(factory=dict)
    passing: Passing = attrs.field(factory=Passing)
    absorbed: set[Step] = attrs.field(factory=set)
    longest: Mapping[str, int] = attrs.field(factory=dict)
    chosen: dict[Node, OpKernel] = attrs.field(factory=dict)

    def continuing(self, before: Site) -> Site:
        """Return this site with what the steps of an earlier stage keep for their readers and gradients.

        What this stage adds to it is its own where the earlier one, bound once, may be followed by others.
        """
        return attrs.evolve(
            self,
            step_contexts=before.step_contexts,
            compiled_loops=before.compiled_loops,
            normalized=before.normalized,
            chosen=before.chosen,
            images=before.images and before.images.continued(),
            affine=dict(before.affine),
            absorbed=set(before.absorbed),
        )

    def given(self, node: Node) -> Any:
        """What an op is given of a node: its value, or a sparse matrix. What nothing keeps is zeros of its shape."""
        if node in self.sparse:
            return self.sparse[node].matrix
        return self.values[node] if node in self.values else np.zeros(self.shape(node), self.dtype)

    def only_reader(self, step: Step) -> Step | None:
        """The one step that reads the one node of a step; None if there are more, or something else keeps the value."""
        (node,) = step.nodes
        readers = [other for other in self.plan.steps if node in other.reads]
        if len(readers) != 1 or isinstance(readers[0], Loop) or node in self.plan.roots:
            return None
        return None if any(node in other.reads for other in self.plan.gradients) else readers[0]

    def next_gradient(self, step: GradientStep) -> GradientStep | None:
        """The gradient step that runs right after a whole one, None if there is none or it is a loop's."""
        gradients = self.plan.gradients
        place = gradients.index(step) + 1 if step in gradients else len(gradients)
        following = gradients[place] if place < len(gradients) else None
        return following if isinstance(following, GradientStep) else None


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Uninitialised storage aligned to 64 bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    size = np.dtype(dtype).itemsize
    raw = np.empty(count * size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + count * size].view(dtype).reshape(shape)
