"""Verb: a word of the command line, ``cntk word ...``.

A wheel offers it as an entry point of the group ``cntk.verbs``; the name of the entry point is the word. The first line
of its docstring is its line in ``cntk --help``, which reads it from the source and imports nothing::

    class Hello(Verb):
        \"\"\"Greet somebody.\"\"\"

        requires_api = "1.0"

        def add_arguments(self, parser: argparse.ArgumentParser) -> None:
            parser.add_argument("who", help="whom to greet")

        def run(self, options: argparse.Namespace) -> int:
            print(f"Hello {options.who}")
            return 0
"""

from __future__ import annotations

import argparse
from abc import abstractmethod

from cntk_core.contract.component import Component


class Verb(Component):
    """One word of the command line. Made without arguments.

    Its module is imported when the word is used: keep it light, and import what is heavy in :meth:`run`.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments; by default there are none.

        Options ``--plugin FILE`` are understood by every verb. Where there is an argument ``overrides``, further
        ``key=value`` may stand anywhere on the command line.
        """
        return

    @abstractmethod
    def run(self, options: argparse.Namespace) -> int:
        """Do the work and return the exit code: 0 done, 1 failed.

        ``options`` has what was parsed; ``options.verb`` is the word, ``options.plugin`` the plugin files.

        Raises:
            CntkError: what the user has to mend; it is printed as one message.
        """
