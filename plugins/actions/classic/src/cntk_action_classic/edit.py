"""The action edit: models are changed by a script (``editPath``), or made from others by a network builder."""

from __future__ import annotations

from pathlib import Path

import attrs

from cntk_core.api import Action, BuildContext, Config, ConfigError, Location, Network, NetworkBuilder, Value
from cntk_core.api.builders import SourceText, complete_network
from cntk_core.api.recipes import RecipeContext

LANGUAGE = "MEL"
"""The builder that runs the scripts that ``editPath`` names."""


class EditAction(Action):
    """Changes models by a script (``editPath``), or makes them from others by a network builder."""

    requires_api = "1.0"
    name = "edit"
    writes = ("outputModelPath",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section; a script is read, but none of its commands is run."""
        described = _described(context, section)
        if described is None:
            script_builder(context, section).check(_script(section), edit_context(context))
            return
        section.require("outputModelPath")
        builder = context.plugins.registry.builders.get(described.short_name, where=described.key_where)()
        builder.check(described, edit_context(context))

    def run(self, context: RecipeContext, section: Config) -> None:
        """Run the script, or build the network and save it as ``outputModelPath``."""
        described = _described(context, section)
        if described is None:
            network = run_script(context, section)
            if section.own("outputModelPath") is not None:
                _save(context, section, network)
            return
        target = section.string("outputModelPath")
        if section.boolean("makeMode", True) and Path(target).exists():
            context.log.line(f"'{target}' exists, skipping. Specify makeMode=false to force executing the action.")
            return
        _save(context, section, context.describe_network(section, edit_context(context)))


def run_script(context: RecipeContext, section: Config, base: Network | None = None) -> Network:
    """Run the script of a section and return the network of its default model.

    Args:
        context: the run.
        section: has ``editPath`` or ``editCommands``, and whatever variables the script uses.
        base: the network that the script begins with, if any.

    Raises:
        CntkError: there is no builder for scripts, or the script is wrong or fails.
    """
    return script_builder(context, section).build(_script(section), edit_context(context, base))


def script_builder(context: RecipeContext, section: Config) -> NetworkBuilder:
    """Return the builder that runs scripts.

    Raises:
        PluginError: it is not installed.
    """
    return context.plugins.registry.builders.get(LANGUAGE, where=section.location("editPath"))()


def edit_context(context: RecipeContext, base: Network | None = None) -> BuildContext:
    """Return what the builder is told; models keep their precision unless the recipe asks for one."""

    def load(path: str, where: Location | None = None) -> Network:
        return context.load_model(path, where, as_saved="precision" not in context.config)

    made = context.build_context()
    dtype = made.dtype if base is None else base.dtype
    return attrs.evolve(made, load_model=load, base=base, dtype=dtype)


def _described(context: RecipeContext, section: Config) -> Value | None:
    """Return the value with the description of a network, None if the section has a script.

    Raises:
        ConfigError: it has neither.
    """
    if section.own("editPath") is not None:
        return None
    value = context.builder_value(section)
    if value is None and section.get("editPath", "editCommands") is None:
        raise ConfigError(
            f"the edit action of {section.name} has neither a script nor a network builder",
            where=section.where,
            hint='Give editPath="script.mel", or BrainScriptNetworkBuilder=[ ... ] with outputModelPath="model.dnn".',
        )
    return value


def _script(section: Config) -> Value:
    """Return an empty block inside of the section: the builder looks up its keys through it."""
    return Value(SourceText.of("[]"), f"{section.name}:{LANGUAGE}", section.where, section)


def _save(context: RecipeContext, section: Config, network: Network) -> None:
    value = section.require("outputModelPath")
    complete_network(network)
    context.save_model(network, value.string(), value.where)
    context.log.plain()
    context.log.line(f"Model with {len(network)} nodes saved as '{value.string()}'.")
