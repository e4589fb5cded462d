"""``cntk serve``: a model over HTTP."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Serve(Verb):
    """Serve a model over HTTP: JSON or Arrow in and out, requests computed together, a page to try it."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the model, the address and the limits."""
        parser.add_argument("model", metavar="MODEL", help="a model of any format")
        parser.add_argument("--node", action="append", default=[], metavar="NAME", help="default: the model's outputs")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
        parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
        parser.add_argument("--engine", default="auto", metavar="NAME", help="default: the best one here")
        parser.add_argument("--batch", type=int, default=256, metavar="N", help="most samples computed together")
        parser.add_argument("--queue", type=int, default=512, metavar="N", help="most requests that wait; then 503")
        parser.add_argument("--body", type=float, default=16.0, metavar="MB", help="longest request (default: 16)")
        parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="most seconds in the queue")
        parser.add_argument("--check", action="store_true", help="compute zeros, say what would be served, end")

    def run(self, options: argparse.Namespace) -> int:
        """Serve until a signal comes."""
        from cntk_tool_serve.server import serve

        return serve(options)
