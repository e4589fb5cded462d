"""What a program says of parallel training: who trains together, and how."""

from __future__ import annotations

import attrs

from cntk_core.config import parse_text
from cntk_core.contract.parallel import Communicator, Parallelizer
from cntk_core.plugins.registry import Registry
from cntk_core.plugins.strategies import make_strategy
from cntk_core.training.loop.ranks import ParallelSettings, Ranks


@attrs.frozen(eq=False)
class Parallel:
    """How several ranks train together; each of them makes a trainer, and gives it its own share of the data.

    Attributes:
        communicator: of the ranks, or the name of a plugin.
        strategy: the name of a plugin, as a recipe has it, or one that is made already.
        options: of the strategy, as a recipe has them: ``gradientBits=1``.
        settings: the rest.
    """

    communicator: Communicator | str
    strategy: str | Parallelizer
    options: str = ""
    settings: ParallelSettings = attrs.field(factory=ParallelSettings)

    def ranks(self, registry: Registry) -> Ranks:
        """Make the ranks that this describes.

        Raises:
            PluginError, ConfigError: something is not installed, or has no such option.
        """
        given, strategy = self.communicator, self.strategy
        communicator = registry.communicators.get(given)() if isinstance(given, str) else given
        if isinstance(strategy, str):
            kind = registry.parallelizers.get(strategy)
            made = make_strategy(kind, parse_text(self.options), strategy, registry.aggregations.get)
            return Ranks(communicator, made, strategy, self.settings)
        return Ranks(communicator, strategy, type(strategy).__name__, self.settings)
