"""What a program hears of a minibatch that was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from cntk_core.training.loop.criteria import Criterion


@attrs.frozen(eq=False)
class StepResult:
    """What a minibatch gave.

    Attributes:
        samples: samples that the criteria count, of all ranks that make the same steps.
        updated: whether the parameters were updated.
        ended: no rank had any data: an epoch of ranks that make the same steps is over.
    """

    samples: int
    updated: bool
    ended: bool
    _read: Callable[[], Mapping[str, Criterion]] = attrs.field(alias="read")

    @property
    def criteria(self) -> Mapping[str, Criterion]:
        """The criterion and the evaluations of this minibatch, by name, fetched from the engine when asked for.

        Raises:
            TrainingError: they are not there any more, because another minibatch was learned.
        """
        return self._read()

    @property
    def loss(self) -> float:
        """The criterion's average of a sample; see :attr:`criteria`."""
        return next(iter(self.criteria.values())).average
