"""EpochSchedule: a rule that gives a number for each epoch, where the SGD block takes a list of numbers.

A wheel offers it as an entry point of the group ``cntk.schedules``; the name of the entry point is the ``type``::

    @options
    class HalvingOptions:
        start: float
        every: int = 10

    class Halving(EpochSchedule):
        options, requires_api = HalvingOptions, "1.0"

        def value(self, epoch: int, epochs: int) -> float:
            return self.settings.start * 0.5 ** (epoch // self.settings.every)

and a recipe writes ``learningRatesPerSample = [ type = "halving" ; start = 0.1 ]``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from cntk_core.contract.component import Component

TYPE = "type"
"""The key that names the rule; it is the core's."""


class EpochSchedule(Component):
    """A number for each epoch. Made as ``Rule(options)``; ``self.settings`` is an instance of ``cls.options``.

    All values are asked for before training begins, so that a value must follow from its arguments and the options
    alone. A training that is resumed then goes on with the values that it would have had.
    """

    def __init__(self, options: Any) -> None:
        self.settings = options

    @classmethod
    def configure(cls, block: Any, what: str) -> Any:
        """Make the options from the block; its ``type`` is none of them."""
        return block.bind(cls.options, ignore=(TYPE,), what=what)

    @abstractmethod
    def value(self, epoch: int, epochs: int) -> float:
        """Return the number of an epoch.

        Its unit is that of the key in the recipe (``learningRatesPerMB``). Where the key takes whole numbers it is
        rounded to the nearest.

        Args:
            epoch: from 0.
            epochs: ``maxEpochs`` of the recipe.

        Raises:
            OptionError: the options make no sense for so many epochs.
        """
