"""What verbs share: the arguments for a recipe, and what they mean."""

from __future__ import annotations

import argparse
import os
import sys

from cntk_core.errors import UsageError


def program() -> str:
    """How the program was called; tests and ``python -m cntk_core`` call it otherwise than people do."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name if name.startswith("cntk") else "cntk"


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Add the recipe and its ``key=value``."""
    parser.add_argument("recipe", help="file with the recipe, or several joined with +")
    add_overrides(parser)


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add ``key=value``, as many as there are."""
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="values that replace those of the recipe"
    )


def recipe_arguments(options: argparse.Namespace) -> list[str]:
    """Return the recipe and its ``key=value`` as CNTK's command line has them.

    Raises:
        UsageError: what stands in the place of the recipe is none.
    """
    recipe = str(options.recipe)
    if not recipe.lower().startswith("configfile="):
        if "=" in recipe:
            raise UsageError(f"'{recipe}' is no recipe", hint=f"cntk {options.verb} recipe.cntk [key=value ...]")
        recipe = f"configFile={recipe}"
    return [recipe, *options.overrides]
