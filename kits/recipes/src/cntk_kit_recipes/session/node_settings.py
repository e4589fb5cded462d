"""What the SGD block sets in nodes of the network: dropout, batch normalisation, regularisation of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from cntk_core.config import Schedule
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.families.dropout import RATE
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.training.settings import SGDSettings


def normalizations(nodes: Iterable[Node]) -> list[Node]:
    """Return the batch normalisations among nodes."""
    return [node for node in nodes if isinstance(node.attributes, BatchNormalizationAttributes)]


def spare_normalizations(network: Network, settings: SGDSettings) -> None:
    """Keep L1 and L2 away from scale and bias of batch normalisations (``disableRegInBatchNormalization``)."""
    for node in normalizations(network):
        if settings.disable_reg_in_batch_normalization or node.attributes.disable_regularization:
            for child in node.inputs[1:3]:
                if isinstance(child, Parameter):
                    child.regularization_multiplier = 0.0


@attrs.define(eq=False)
class NodeSettings:
    """Sets what schedules change in nodes, and says so.

    Before its first change a schedule is 0 and leaves alone what the network says.

    Attributes:
        nodes: what the criterion needs.
        settings: the schedules.
        say: gets a line for each change.
    """

    nodes: list[Node]
    settings: SGDSettings
    say: Callable[[str], None]
    _before: dict[str, float] = attrs.field(factory=dict)

    def begin(self, epoch: int) -> None:
        """Set what an epoch (from 0) needs. Dropout reads its rate by itself."""
        settings = self.settings
        drops = self._changes("dropout rate", settings.dropout_rate, epoch) and settings.dropout_rate[epoch] > 0
        if drops and not any(RATE in node.op.traits.settings for node in self.nodes):
            self.say("WARNING: Attempting to set dropout rate, but there is no dropout node in the network.")
        changes = {}
        for field, name, schedule in (
            ("normalization_time_constant", "time constant", settings.batch_normalization_time_constant),
            ("blend_time_constant", "blend time constant", settings.batch_normalization_blend_time_constant),
        ):
            if self._changes(f"batch normalization {name}", schedule, epoch):
                changes[field] = schedule[epoch]
        if changes:
            found = normalizations(self.nodes)
            if not found:
                self.say("WARNING: there is no batch normalization node.")
            for node in found:
                node.attributes = attrs.evolve(node.attributes, **changes)

    def _changes(self, name: str, schedule: Schedule[float], epoch: int) -> bool:
        value = schedule[epoch]
        begun = name in self._before or not any(schedule[earlier] for earlier in range(epoch))
        if begun and value == self._before.get(name, 0.0):
            return False
        self._before[name] = value
        self.say(f"Setting {name} to {value:.8g}.")
        return True
