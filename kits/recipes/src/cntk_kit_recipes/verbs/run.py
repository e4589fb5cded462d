"""``cntk train``, ``cntk test`` and ``cntk write``: the actions of a recipe."""

from __future__ import annotations

import argparse
import os
import sys

from cntk_core.contract.verb import Verb
from cntk_core.errors import CntkError, UsageError
from cntk_kit_recipes.cli.arguments import add_recipe, program, recipe_arguments
from cntk_kit_recipes.cli.plugin_words import join_plugins
from cntk_kit_recipes.cli.safe_words import join_safe


class Write(Verb):
    """Run the write actions of a recipe."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe."""
        add_recipe(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Run the actions that the verb names."""
        return run_action(options)


class Train(Verb):
    """Run the train actions of a recipe."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe and the ranks."""
        add_recipe(parser)
        _add_ranks(parser)
        parser.add_argument(
            "--data-parallel", action="store_true", help="share the data where the recipe does not say how ranks train"
        )

    def run(self, options: argparse.Namespace) -> int:
        """Run the actions that the verb names."""
        if options.data_parallel:
            options.overrides = [*options.overrides, *_data_parallel(options)]
        return run_action(options)


class Test(Verb):
    """Run the test actions of a recipe."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe and the ranks."""
        add_recipe(parser)
        _add_ranks(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Run the actions that the verb names."""
        return run_action(options)


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--ranks", type=int, metavar="N", help="start N ranks that do it together")
    parser.add_argument("--on", metavar="NAME", help="what starts them: ray, slurm, torchrun, ...")
    parser.add_argument("--elastic", action="store_true", help="when ranks are lost, the others go on")
    parser.add_argument("--min-ranks", type=int, metavar="N", help="ranks that must be left; by default 1")
    text = "of an elastic run: ranks that are lost are started again, so many times, and join the others"
    parser.add_argument("--restarts", type=int, metavar="N", help=text)


def _data_parallel(options: argparse.Namespace) -> list[str]:
    """Return what is said beside a recipe; one that cannot be read is told of when it is run."""
    from cntk_core.config import load_recipe
    from cntk_core.plugins.manager import PluginManager
    from cntk_kit_recipes.block.data_parallel import overrides
    from cntk_kit_recipes.recipe.jobs import find_jobs

    try:
        config = load_recipe(recipe_arguments(options))
        registry = PluginManager(options.plugin, load_hooks=False).registry
        return overrides(config, [job.section for job in find_jobs(config, registry, options.verb)])
    except (CntkError, OSError):
        return []


def run_action(options: argparse.Namespace) -> int:
    """Run the actions of a recipe that the verb names."""
    elastic = _elastic(options)
    if getattr(options, "ranks", None) is not None:
        from cntk_core.plugins.addresses import with_addresses
        from cntk_kit_recipes.launch.launcher import launch, named_in_recipe
        from cntk_kit_recipes.recipe.elastic import AS_RECIPE, asked_in_recipe

        if not elastic and options.ranks > 1:
            asked = asked_in_recipe(recipe_arguments(options), options.verb, options.plugin)
            elastic = AS_RECIPE if asked else elastic
        arguments = [options.verb, with_addresses(options.recipe), *options.overrides, *join_plugins(options.plugin)]
        arguments += join_safe(options.safe)
        communicator = named_in_recipe(recipe_arguments(options))
        restarts = _restarts(options, elastic)
        return launch(options.ranks, arguments, options.plugin, elastic, communicator, options.on or "", restarts)
    if getattr(options, "restarts", None):
        raise UsageError("--restarts starts ranks again: it needs -n", hint="-n 4 --elastic --restarts 2")
    if getattr(options, "on", None) is not None:
        raise UsageError(f"--on {options.on} starts ranks: it needs their number", hint=f"-n 4 --on {options.on}")
    if elastic:
        from cntk_kit_recipes.recipe.ranks import ELASTIC

        os.environ[ELASTIC] = elastic
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log

    log = Log()
    try:
        run_recipe(
            recipe_arguments(options),
            log,
            only=options.verb,
            plugin_files=options.plugin,
            program=program(),
            progress=sys.stderr.isatty(),
        )
    finally:
        log.close()
    return 0


def _restarts(options: argparse.Namespace, elastic: str) -> int:
    """Return how many ranks that are lost are started again."""
    given: int = getattr(options, "restarts", None) or 0
    if given < 0:
        raise UsageError(f"--restarts {given} makes no sense: it is at least 0")
    if given and not elastic:
        raise UsageError("--restarts starts ranks again that were lost, which is for --elastic alone")
    if given and options.on:
        raise UsageError(f"--restarts is for ranks on this machine: {options.on} starts those of --on itself")
    return given


def _elastic(options: argparse.Namespace) -> str:
    """Return what ``--elastic`` and ``--min-ranks`` ask for, as the variable has it."""
    least: int | None = getattr(options, "min_ranks", None)
    if not getattr(options, "elastic", False):
        if least is not None:
            raise UsageError("--min-ranks says how many ranks must be left, which is for --elastic alone")
        return ""
    from cntk_kit_recipes.recipe.elastic import AS_RECIPE

    if least is not None and least < 1:
        raise UsageError(f"--min-ranks {least} makes no sense: at least 1 rank must be left")
    return AS_RECIPE if least is None else str(least)
