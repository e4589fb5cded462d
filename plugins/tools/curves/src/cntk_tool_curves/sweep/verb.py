"""The verb ``cntk sweep``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Sweep(Verb):
    """Train a recipe with several values of some keys, and compare the results."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the recipe, the values, and how they are tried."""
        add = parser.add_argument
        add("recipe", help="file with the recipe, or several joined with +")
        add("overrides", nargs="*", default=[], metavar="key=a,b,c", help="values to try; key=value holds for all")
        add("-o", "--output", default="sweep", metavar="FOLDER", help="a folder for each point (default: %(default)s)")
        add("-j", "--jobs", type=int, default=1, metavar="N", help="trainings at a time (default: %(default)s)")
        add("-n", "--ranks", type=int, default=0, metavar="N", help="ranks of each training")
        add("--random", type=int, default=0, metavar="N", help="only N points, by chance")
        add("--seed", type=int, default=1, help="of the choice (default: %(default)s)")
        add("--criterion", default="", metavar="NAME", help="what points are compared by (default: first evaluation)")
        add("--maximize", action="store_true", help="the largest value is the best one")
        add("--plot", default="", metavar="FILE", help="draw the curves of the best points: .svg, .png or .pdf")

    def run(self, options: argparse.Namespace) -> int:
        """Do it."""
        from pathlib import Path

        from cntk_core.api.recipes import recipe_arguments
        from cntk_tool_curves.sweep.sweep import SweepRequest, run_sweep

        recipe, *words = recipe_arguments(options)
        request = SweepRequest(
            recipe,
            tuple(words),
            Path(options.output),
            jobs=options.jobs,
            ranks=options.ranks,
            count=options.random,
            seed=options.seed,
            criterion=options.criterion,
            largest=options.maximize,
            plot=options.plot,
            options=tuple(_for_each(options)),
        )
        return run_sweep(request)


def _for_each(options: argparse.Namespace) -> list[str]:
    """Return the words about plugins and trust for each training; a name with ``-`` in front is one to leave out."""
    words: list[str] = []
    for plugin in options.plugin:
        words += ["--no-plugin", plugin[1:]] if plugin.startswith("-") else ["--plugin", plugin]
    safe = getattr(options, "safe", "")
    return [*words, f"--safe={safe}"] if safe else words
