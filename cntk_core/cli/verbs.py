"""What the verbs of the command do: each calls an action. Everything heavy is imported where it is used."""

from __future__ import annotations

import argparse
import os
import sys

from cntk_core.errors import UsageError


def program() -> str:
    """How the program was called; tests and ``python -m cntk_core`` call it otherwise than people do."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name if name.startswith("cntk") else "cntk"


def run_action(options: argparse.Namespace) -> int:
    """Run the actions of a recipe that the verb names."""
    elastic = _elastic(options)
    if getattr(options, "ranks", None) is not None:
        from cntk_core.actions.elastic import AS_RECIPE, asked_in_recipe
        from cntk_core.actions.launch import launch, named_in_recipe

        plugins = [text for path in options.plugin for text in ("--plugin", path)]
        if not elastic and options.ranks > 1 and asked_in_recipe(_recipe_arguments(options), options.verb):
            elastic = AS_RECIPE
        arguments = [options.verb, options.recipe, *options.overrides, *plugins]
        communicator = named_in_recipe(_recipe_arguments(options))
        return launch(options.ranks, arguments, options.plugin, elastic, communicator)
    if elastic:
        from cntk_core.actions.elastic import ELASTIC

        os.environ[ELASTIC] = elastic
    from cntk_core.actions.driver import run_recipe
    from cntk_core.actions.log import Log

    log = Log()
    try:
        run_recipe(
            _recipe_arguments(options),
            log,
            only=options.verb,
            plugin_files=options.plugin,
            program=program(),
            progress=sys.stderr.isatty(),
        )
    finally:
        log.close()
    return 0


def _elastic(options: argparse.Namespace) -> str:
    """Return what ``--elastic`` and ``--min-ranks`` ask for, as the variable has it."""
    least: int | None = getattr(options, "min_ranks", None)
    if not getattr(options, "elastic", False):
        if least is not None:
            raise UsageError("--min-ranks says how many ranks must be left, which is for --elastic alone")
        return ""
    from cntk_core.actions.elastic import AS_RECIPE

    if least is not None and least < 1:
        raise UsageError(f"--min-ranks {least} makes no sense: at least 1 rank must be left")
    return AS_RECIPE if least is None else str(least)


def _recipe_arguments(options: argparse.Namespace) -> list[str]:
    recipe = str(options.recipe)
    if not recipe.lower().startswith("configfile="):
        if "=" in recipe:
            raise UsageError(f"'{recipe}' is no recipe", hint=f"cntk {options.verb} recipe.cntk [key=value ...]")
        recipe = f"configFile={recipe}"
    return [recipe, *options.overrides]


def run_edit(options: argparse.Namespace) -> int:
    """Change models."""
    from cntk_core.actions.edit_verb import edit_model, edit_with_script, is_script

    if options.commands or options.script or options.output:
        return edit_model(
            options.recipe,
            options.overrides,
            script=options.script,
            commands=options.commands,
            output=options.output,
            plugin_files=options.plugin,
        )
    if is_script(options.recipe):
        return edit_with_script(options.recipe, options.overrides, plugin_files=options.plugin)
    return run_action(options)


def run_check_data(options: argparse.Namespace) -> int:
    """Look at the data files of a recipe."""
    from cntk_core.actions.check_data import check_data

    return check_data(_recipe_arguments(options), section=options.section, plugin_files=options.plugin)


def run_explain(options: argparse.Namespace) -> int:
    """Show how a network is computed."""
    from cntk_core.actions.explain import explain_recipe

    return explain_recipe(
        _recipe_arguments(options), section=options.section, frames=options.frames, plugin_files=options.plugin
    )


def run_plot(options: argparse.Namespace) -> int:
    """Draw a network."""
    from cntk_core.actions.show_model import plot

    return plot(
        options.source,
        options.overrides,
        output=options.output,
        section=options.section,
        plugin_files=options.plugin,
    )


def run_plot_log(options: argparse.Namespace) -> int:
    """Draw learning curves."""
    from cntk_core.actions.seeing.plot_log import plot_log

    return plot_log(
        options.logs,
        output=options.output,
        criteria=options.criterion,
        section=options.section,
        logarithmic=options.log_scale,
        minibatches=options.minibatches,
    )


def run_dump(options: argparse.Namespace) -> int:
    """Print the nodes of a model."""
    from cntk_core.actions.show_model import dump_model

    return dump_model(
        options.model,
        pattern=options.node,
        values=options.values,
        output=options.output,
        plugin_files=options.plugin,
    )


def run_convert(options: argparse.Namespace) -> int:
    """Write a model file anew."""
    from cntk_core.actions.convert_model import convert_model

    return convert_model(options.model, options.output, precision=options.precision, plugin_files=options.plugin)


def run_convert_data(options: argparse.Namespace) -> int:
    """Write data as a binary file."""
    from cntk_core.actions.convert_data import convert_data

    return convert_data(
        _recipe_arguments(options),
        output=options.output,
        section=options.section,
        key=options.key,
        precision=options.precision,
        chunk_bytes=options.chunk_size,
        plugin_files=options.plugin,
    )


def run_show_config(options: argparse.Namespace) -> int:
    """Show what a recipe says."""
    from cntk_core.actions.show_config import show_config

    return show_config(
        _recipe_arguments(options),
        section=options.section,
        resolved=options.resolved,
        defaults=not options.given,
        plugin_files=options.plugin,
    )


def run_check_config(options: argparse.Namespace) -> int:
    """Look for everything that is wrong with a recipe."""
    from cntk_core.actions.show_config import check_config

    return check_config(_recipe_arguments(options), plugin_files=options.plugin)


def run_plugins(options: argparse.Namespace) -> int:
    """List, make and check plugins."""
    from cntk_core.actions.plugins import run

    return run(options)


def run_demo(options: argparse.Namespace) -> int:
    """Run the demonstration."""
    from cntk_core.actions.demo import run_demo

    return run_demo(options.folder)


def run_doctor(options: argparse.Namespace) -> int:
    """Say what works here."""
    from cntk_core.actions.doctor import doctor

    return doctor(plugin_files=options.plugin)
