"""Learner: an update rule, stated once as an element-wise expression.

Units, everywhere: a gradient is the SUM over the samples of a minibatch, a learning rate is per sample.

A rule has three kinds of state: slots (an array for each parameter), state (numbers for the whole network, such as the
number of steps), and nothing else. All of it is kept in checkpoints.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from cntk_core.contract.component import Component


@attrs.frozen
class Slot:
    """State that a learner keeps: for each parameter value, such as a smoothed gradient, or once for the network."""

    name: str
    initial: float = 0.0


@attrs.frozen
class UpdateContext:
    """The numbers of one step, for one parameter.

    Attributes:
        samples: N, samples of the (global) minibatch; for sequences with the gaps that CNTK would pad.
        learning_rate: per sample, the parameter's multiplier included.
        momentum: m ** N, the effective momentum of this minibatch.
        step: number of updates done before, from 0.
        epoch: epoch index, from 0.
        state: the learner's numbers of :attr:`Learner.state`, by name.
        dtype: name of the parameters' type, ``float32`` or ``float64``. Scalars are double precision in any case.
    """

    samples: int
    learning_rate: float
    momentum: float
    step: int = 0
    epoch: int = 0
    state: Mapping[str, float] = attrs.field(factory=dict)
    dtype: str = "float64"


class Learner(Component):
    """An update rule. Made as ``Learner(options)``, which are its ``settings``.

    The rule is written once against a math namespace ``m`` (``m.sqrt``, ``m.where``, ...; operators as usual) and run
    as it is, or compiled into one fused pass over the parameter buffer (two where it has :meth:`means`).

    Attributes:
        slots: arrays of a parameter's shape that the rule reads and replaces, for each parameter.
        state: numbers that :meth:`advance` replaces before each step, one each for the whole network.
        steady: :meth:`scalars` looks at the rate, the momentum, the samples and the epoch alone, so that what it
            returned counts for the next step, too.
    """

    slots: ClassVar[tuple[Slot, ...]] = ()
    state: ClassVar[tuple[Slot, ...]] = ()
    steady: ClassVar[bool] = False

    def __init__(self, options: Any = None) -> None:
        self.settings = options if options is not None else type(self).options()

    @property
    def uses_momentum(self) -> bool:
        """Whether the rule looks at ``UpdateContext.momentum``. If not, the log says that a given momentum is idle."""
        return True

    @property
    def everywhere(self) -> bool:
        """Whether the rule changes values whose gradient is zero and always was (weight decay does).

        A parameter of which a minibatch sees some rows only (a sparse gradient) is then updated as a whole.
        """
        return False

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Return the state for this step; ``context.state`` is that of the step before, at first the initial one.

        Called once for each step, before :meth:`scalars`. The names are those of :attr:`state`.
        """
        return context.state

    @abstractmethod
    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """Return the numbers that :meth:`rule` uses in this step, by name. The names never change."""

    def means(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return element-wise expressions whose means over the parameter :meth:`rule` needs; usually none.

        The rule finds the mean of each among its scalars, under the same name. Of a parameter of which a minibatch sees
        some rows only (a sparse gradient), the mean is over the elements of these rows. The names never change.
        """
        return {}

    @abstractmethod
    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and the new slots. Element-wise: each result depends on one position only."""


@attrs.frozen
class UpdateRule:
    """The whole update of one step: clipping and regularisation around a learner's rule, as one expression.

    Attributes:
        slots: the learner's slots.
        scalars: names of the numbers that change from step to step, in order.
        expression: ``(m, value, gradient, slots, scalars) -> (new value, new slots)``. Its scalars are those above and
            the means.
        identity_gradient: True if the learner's rule sees the gradient as it is (no clipping, no regularisation), so
            that an engine may fold a rule that is linear in the gradient into the gradient's matrix product.
        everywhere: True if values change whose gradient is zero (L1, L2), so that a sparse gradient (``Plan.sparse``)
            is treated as any other.
        key: text that is equal for equal expressions (for caches of compiled code).
        means: names of the means over a parameter that the engine computes before it applies ``expression``.
        mean_expression: ``(m, value, gradient, slots, scalars) -> {name: element-wise expression}``; each is averaged
            over all elements of the parameter or, with a sparse gradient and unless ``everywhere``, over those of the
            rows that are updated.
        on_host: of an update in Python (:class:`~cntk_core.contract.user_learner.UserLearner`): does all of it, called
            with the parameters and the scalars of each. No engine is given such a rule.
    """

    slots: tuple[Slot, ...]
    scalars: tuple[str, ...]
    expression: Callable[..., tuple[Any, Mapping[str, Any]]] = attrs.field(eq=False)
    identity_gradient: bool = True
    key: str = ""
    everywhere: bool = False
    means: tuple[str, ...] = ()
    mean_expression: Callable[..., Mapping[str, Any]] | None = attrs.field(default=None, eq=False)
    on_host: Callable[[Sequence[Any], Sequence[Mapping[str, float]]], None] | None = attrs.field(default=None, eq=False)
