"""The verb ``cntk init``. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from pathlib import Path

from cntk_core.api import UsageError, Verb

_TASKS = ("classify", "regress", "tag", "language-model")


class Init(Verb):
    """Look at data and write a recipe that trains on them."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the folder, the data, and what is to be learned."""
        add = parser.add_argument
        add("folder", nargs="?", default="", help="where the new files go (default: ./recipe)")
        add("--data", nargs="+", default=[], metavar="FILE", help="files that belong together, or a folder")
        add("--task", default="", metavar="TASK", help=f"{', '.join(_TASKS)} (default: what the data look like)")
        add("--target", default="", metavar="NAME", help="the column, stream or array that is to be learned")
        add(
            "--held-out",
            default="0.1",
            metavar="SHARE|FILE",
            help="what is not learned from: a share of the data, 0 for none, or another file (default: %(default)s)",
        )
        add("--look", action="store_true", help="only say what the data are")
        add("--force", action="store_true", help="replace files that are there")
        add("--yes", action="store_true", help="ask nothing")

    def run(self, options: argparse.Namespace) -> int:
        """Do it."""
        from cntk_tool_init.found import Wishes
        from cntk_tool_init.init import Request, run_init

        share, held_out = _held_out(options.held_out)
        wishes = Wishes(options.target, share, held_out)
        request = Request(
            options.folder,
            options.data,
            options.task,
            wishes,
            force=options.force,
            yes=options.yes,
            only_look=options.look,
        )
        return run_init(request)


def _held_out(said: str) -> tuple[float, Path | None]:
    """Return the share and the file that are held out."""
    try:
        share = float(said)
    except ValueError:
        if not Path(said).exists():
            hint = "Give a number such as 0.1, or a file."
            raise UsageError(f"--held-out: '{said}' is no share and no file", hint=hint) from None
        return 0.0, Path(said)
    if not 0 <= share <= 0.5:
        raise UsageError(f"--held-out: {said} is not between 0 and 0.5")
    return share, None
