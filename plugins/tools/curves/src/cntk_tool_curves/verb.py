"""The verb ``cntk plot-log``."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class PlotLog(Verb):
    """Draw the learning curves of one or several runs, from their logs."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the logs and what is drawn of them."""
        add = parser.add_argument
        add("logs", nargs="+", metavar="[NAME=]LOG", help="what jsonLog=... or stderr=... has written")
        add(
            "-o",
            "--output",
            default="learning-curves.svg",
            metavar="FILE",
            help=".svg, .png or .pdf (default: %(default)s)",
        )
        add("--criterion", action="append", default=[], metavar="NAME", help="only this; may be repeated")
        add("--section", default="", metavar="COMMAND", help="only trainings of this command")
        add("--log-scale", action="store_true", help="criteria on a logarithmic scale")
        add("--minibatches", action="store_true", help="also what was shown within the epochs")

    def run(self, options: argparse.Namespace) -> int:
        """Draw them."""
        from cntk_tool_curves.plot_log import plot_log

        return plot_log(
            options.logs,
            output=options.output,
            criteria=options.criterion,
            section=options.section,
            logarithmic=options.log_scale,
            minibatches=options.minibatches,
        )
