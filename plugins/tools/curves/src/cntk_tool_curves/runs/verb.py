"""The verb ``cntk runs``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Runs(Verb):
    """List, compare and draw earlier runs, from their logs."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the tasks list, compare and plot."""
        tasks = parser.add_subparsers(metavar="TASK", dest="task", required=True)
        listing = tasks.add_parser("list", help="a line for each run: recipe, date, epochs, best epoch, time")
        _add_places(listing)
        _add_criterion(listing)
        listing.add_argument("--best-first", action="store_true", help="the best run first; otherwise as they began")
        _add_form(listing)
        compare = tasks.add_parser("compare", help="in which settings and results runs differ")
        _add_places(compare)
        _add_criterion(compare)
        _add_form(compare)
        plot = tasks.add_parser("plot", help="draw the learning curves of runs")
        _add_places(plot)
        plot.add_argument(
            "-o", "--output", default="runs.svg", metavar="FILE", help=".svg, .png or .pdf (default: %(default)s)"
        )
        plot.add_argument("--criterion", action="append", default=[], metavar="NAME", help="only this; may be repeated")
        plot.add_argument("--log-scale", action="store_true", help="criteria on a logarithmic scale")

    def run(self, options: argparse.Namespace) -> int:
        """Do the task."""
        from cntk_tool_curves.runs.show import compare_runs, list_runs, plot_runs

        if options.task == "plot":
            return plot_runs(options.places, options.output, criteria=options.criterion, logarithmic=options.log_scale)
        if options.task == "compare":
            return compare_runs(
                options.places, criterion=options.criterion, largest=options.maximize, form=options.form
            )
        return list_runs(
            options.places,
            criterion=options.criterion,
            largest=options.maximize,
            best_first=options.best_first,
            form=options.form,
        )


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="*",
        default=["."],
        metavar="LOG|FOLDER",
        help="logs, or folders with logs below (default: here)",
    )


def _add_criterion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--criterion", default="", metavar="NAME", help="what the best epoch is the best by (default: first evaluation)"
    )
    parser.add_argument("--maximize", action="store_true", help="the largest value is the best one")


def _add_form(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--csv", dest="form", action="store_const", const="csv", default="text", help="for a spreadsheet"
    )
    forms.add_argument("--json", dest="form", action="store_const", const="json", help="for programs")
