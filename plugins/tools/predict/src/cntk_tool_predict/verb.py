"""``cntk predict``: a model's values for a file of data."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Predict(Verb):
    """Compute a model's outputs for a file of samples or sequences, and write them to another."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model, the files, and how one becomes the other."""
        parser.add_argument("model", metavar="MODEL", help="a model of any format")
        parser.add_argument("-i", "--input", required=True, metavar="FILE", help=".npy .npz .csv .parquet .ctf .txt")
        parser.add_argument("-o", "--output", required=True, metavar="FILE", help=".npy .npz .csv .parquet")
        parser.add_argument("--node", action="append", default=[], metavar="NAME", help="default: the model's outputs")
        parser.add_argument(
            "--columns",
            action="append",
            default=[],
            metavar="INPUT=A,B,C",
            help="columns of a table for an input",
        )
        parser.add_argument("--argmax", action="store_true", help="the place of the largest value, instead of values")
        parser.add_argument("--labels", default="", metavar="FILE", help="a name per line for the places of --argmax")
        parser.add_argument("--batch", type=int, default=256, metavar="N", help="samples at a time (default: 256)")
        parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
        parser.add_argument("--engine", default="auto", metavar="NAME", help="default: the best one here")

    def run(self, options: argparse.Namespace) -> int:
        """Write the file."""
        from cntk_tool_predict.predict import predict

        return predict(options)
