"""The verb ``cntk data``. Imports nothing that takes time."""

from __future__ import annotations

import argparse

from cntk_core.api import Verb


class Data(Verb):
    """Write files that recipes read from a data set that you downloaded: mnist, cifar10."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the data set and the folders."""
        add = parser.add_argument
        add("name", help="mnist, cifar10, or one of a plugin")
        add("--from", dest="source", required=True, metavar="DIR", help="where the downloaded files are")
        add("--to", dest="target", default=".", metavar="DIR", help="where the new ones go (default: here)")
        add("--only", default="", metavar="PART", help="text or images: only text files, or only pictures")
        add("--no-checksum", dest="checksum", action="store_false", help="take other files than the published ones too")

    def run(self, options: argparse.Namespace) -> int:
        """Write the files."""
        from cntk_tool_data.convert import convert

        return convert(
            options.name,
            options.source,
            options.target,
            checksum=options.checksum,
            only=options.only,
            plugin_files=options.plugin,
        )
