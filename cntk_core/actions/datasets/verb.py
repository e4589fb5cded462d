"""The words of ``cntk data``. Imports nothing that takes time."""

from __future__ import annotations

import argparse


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb to a parser."""
    parser.add_argument("name", help="mnist or cifar10")
    parser.add_argument("--from", dest="source", required=True, metavar="DIR", help="where the downloaded files are")
    parser.add_argument("--to", dest="target", default=".", metavar="DIR", help="where the new ones go (default: here)")
    parser.add_argument("--only", choices=("text", "images"), default="", help="only text files, or only pictures")
    parser.add_argument(
        "--no-checksum", dest="checksum", action="store_false", help="take other files than the published ones too"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from cntk_core.actions.datasets.convert import convert

    return convert(options.name, options.source, options.target, checksum=options.checksum, only=options.only)
