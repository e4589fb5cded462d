"""What a kernel of this engine is, and which there are for an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from cntk_core.api import Kernel, Node, Op
from cntk_core.api.engines import GradientStep, Step, kernel_tables
from cntk_engine_cpu.site import Call, Site

if TYPE_CHECKING:
    from cntk_engine_cpu.loop_backward import BackwardWriter
    from cntk_engine_cpu.loop_forward import ForwardWriter

Calls = Call | Callable[[], None] | Sequence[Call | Callable[[], None]]


def _never(node: Node) -> bool:
    return False


@attrs.frozen(eq=False)
class OpKernel:
    """How this engine computes an op.

    Attributes:
        forward: ``(site, step) -> calls`` that compute the value, None if it cannot.
        gradient: ``(site, gradient step) -> calls`` that compute the gradients, None if it cannot.
        channels_last: it takes and gives images as they lie. Any other gets plain arrays.
        begins: whether the images that a node gives lie channels last.
        follows: whether they lie as those that it reads.
        in_loop: writes a node into the text of a loop; ``(writer, node)``, raises ``NotCompiled`` if it cannot.
        in_loop_gradient: the same for its gradients, ``(writer, gradient step)``.
        takes_parts: in a loop, it reads slices of a vector where the whole lies.
    """

    forward: Callable[[Site, Step], Calls | None]
    gradient: Callable[[Site, GradientStep], Calls | None] | None = None
    channels_last: bool = False
    begins: Callable[[Node], bool] = _never
    follows: Callable[[Node], bool] = _never
    in_loop: Callable[[ForwardWriter, Node], None] | None = None
    in_loop_gradient: Callable[[BackwardWriter, GradientStep], None] | None = None
    takes_parts: bool = False


class OpKernels:
    """The kernels of ops, in the order in which they are asked.

    Args:
        given: those that the run has found.
        own: the engine's.

    Attributes:
        by_op: of each op.

    Raises:
        PluginError: one has a setting that the engine does not know.
    """

    def __init__(self, given: Sequence[Kernel], own: Sequence[Kernel]) -> None:
        self.by_op = kernel_tables(given, own, OpKernel)

    def of(self, op: Op) -> tuple[OpKernel, ...]:
        """Return the kernels of an op."""
        return self.by_op.get(op, ())

    def begins_channels_last(self, node: Node) -> bool:
        """Whether a kernel gives images that lie channels last."""
        return any(kernel.begins(node) for kernel in self.of(node.op))

    def follows_channels(self, node: Node) -> bool:
        """Whether a kernel gives images that lie as those that it reads."""
        return any(kernel.follows(node) for kernel in self.of(node.op))


def by_description(site: Site, step: Any) -> None:
    """Leave a step outside of loops to the op's own functions."""


def listed(found: Calls) -> list[Call]:
    """What a kernel gives, as calls."""
    several = found if isinstance(found, Sequence) else (found,)
    return [each if isinstance(each, Call) else Call(each) for each in several]
