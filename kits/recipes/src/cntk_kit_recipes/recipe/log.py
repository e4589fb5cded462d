"""Where log lines go: the console, or the file that ``stderr=`` names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TextIO

from cntk_core.errors import ConfigError, Location

STAMP = "%m/%d/%Y %H:%M:%S: "
"""What stands in front of a line with ``timestamping=true``."""


class Log:
    """Writes lines in CNTK's manner: each with a time in front if asked for, to the console or to a file.

    The console is the standard error stream of the moment, so that a stream that was replaced later is honoured.

    Args:
        quiet: write nothing to the console.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.timestamps = False
        self.quiet = quiet
        self._file: TextIO | None = None

    @property
    def to_file(self) -> bool:
        """Whether lines go to a file."""
        return self._file is not None

    def line(self, text: str = "") -> None:
        """Write a line; empty lines never have a time in front."""
        stamp = time.strftime(STAMP) if self.timestamps and text else ""
        self.plain(stamp + text)

    def plain(self, text: str = "") -> None:
        """Write a line without a time in front."""
        if self._file is None:
            self.console(text)
            return
        self._file.write(text + "\n")
        self._file.flush()

    def console(self, text: str) -> None:
        """Write a line to the console, wherever the log goes."""
        if self.quiet:
            return
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def warn(self, text: str) -> None:
        """Write a line to the console, also if the log is quiet."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def redirect(self, path: str, where: Location | None = None) -> None:
        """Send the lines to a file from now on; folders are made.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.line(f"Redirecting stderr to file {path}")
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115 - kept open
        except OSError as error:
            reason = error.strerror or os.strerror(error.errno or 0)
            raise ConfigError(f"the log file '{path}' cannot be written: {reason}", where=where) from None

    def go_on(self, path: str) -> None:
        """Send the lines to the end of another file from now on; to where they went before if it cannot be written."""
        try:
            file = open(path, "a", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115 - kept open
        except OSError as error:
            self.warn(f"Warning: the log file '{path}' cannot be written: {error.strerror or error}")
            return
        self.close()
        self._file = file

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()
            self._file = None
