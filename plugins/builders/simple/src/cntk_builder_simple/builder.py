"""SimpleNetworkBuilder: a network from its layer sizes and its kind (docs/original-rules.md#simplenetworkbuilder)."""

from __future__ import annotations

from cntk_builder_simple.check import problems_of, remarks
from cntk_builder_simple.kinds import kind_of
from cntk_builder_simple.maker import Maker
from cntk_builder_simple.options import OLD_KEYS, SimpleOptions
from cntk_core.api import BuildContext, Network, NetworkBuilder, Value, raise_problems


class SimpleNetworkBuilder(NetworkBuilder):
    """Builds networks from the layer sizes and the ``rnnType`` of a ``SimpleNetworkBuilder`` section."""

    options = SimpleOptions
    requires_api = "1.0"
    block_is_section = True
    priority = 30

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of a ``SimpleNetworkBuilder`` section.

        Raises:
            ConfigError, OptionError, UnsupportedError, Problems: everything that is wrong with the section.
        """
        config = block.config()
        chosen = config.bind(SimpleOptions, ignore=tuple(OLD_KEYS), what="SimpleNetworkBuilder")
        raise_problems(problems_of(config, chosen))
        kind = kind_of(chosen.rnn_type)
        assert kind is not None, "an unknown kind is a problem"
        for line in remarks(config, chosen, kind):
            context.trace(line)
        maker = Maker(config, chosen, context)
        kind.make(maker)
        return maker.finish()
