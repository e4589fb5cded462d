"""The option of the verbs that show networks: how far blocks are open."""

from __future__ import annotations

import argparse


def add_depth(parser: argparse.ArgumentParser) -> None:
    """Add ``--depth``."""
    parser.add_argument(
        "--depth",
        type=int,
        default=0,
        metavar="N",
        help="how far blocks such as layers are shown open: 0 each as one (default), 1 the outermost open, -1 all open",
    )
