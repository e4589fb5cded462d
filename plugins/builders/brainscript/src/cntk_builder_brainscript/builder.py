"""BrainScriptNetworkBuilder: finds the text of the description and builds its network."""

from __future__ import annotations

from cntk_core.api import BuildContext, Network, NetworkBuilder, UnsupportedError, Value


class BrainScriptNetworkBuilder(NetworkBuilder):
    """Builds networks from BrainScript."""

    requires_api = "1.0"

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of a ``BrainScriptNetworkBuilder`` block.

        Raises:
            UnsupportedError: always, until the language is there.
        """
        raise UnsupportedError("BrainScript is not there yet", where=block.where)
