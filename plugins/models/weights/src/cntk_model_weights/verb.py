"""``cntk weights``: the values of a model's nodes as arrays by name, out and in."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Weights(Verb):
    """List the weights of a model or file, write them as npz or safetensors, or give them to a model."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model, the files, and how they belong together."""
        parser.add_argument("source", metavar="MODEL", help="a model; to be listed, also a file of weights")
        parser.add_argument(
            "-o", "--output", default="", metavar="FILE", help=".npz or .safetensors; with --from a model"
        )
        parser.add_argument("--from", dest="weights", default="", metavar="FILE", help="weights that the model gets")
        parser.add_argument(
            "--order",
            choices=("numpy", "cntk"),
            default="numpy",
            help="axes as in memory (default), or as CNTK prints dimensions",
        )
        parser.add_argument("--nodes", action="append", default=[], metavar="PATTERN", help="only these are written")
        parser.add_argument(
            "--name", action="append", default=[], metavar="NODE=ARRAY", help="a node's array; ARRAY^T is turned"
        )
        parser.add_argument("--partial", action="store_true", help="take what is there, keep the rest")

    def run(self, options: argparse.Namespace) -> int:
        """Do what the options say."""
        from cntk_model_weights.command import run

        return run(options)
