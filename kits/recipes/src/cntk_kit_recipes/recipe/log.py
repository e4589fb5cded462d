"""Where log lines go: the console, or the file that ``stderr=`` names."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from cntk_core.errors import ConfigError, Location
from cntk_core.plugins.addresses import with_addresses
from cntk_core.system.console import tell

STAMP = "%m/%d/%Y %H:%M:%S: "
"""What stands in front of a line with ``timestamping=true``."""


class Log:
    """Writes lines in CNTK's manner: each with a time in front if asked for, to the console or to a file.

    It never fails: lines for a file that cannot be written go to the console, and what that does not take is left out.

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
        text = with_addresses(text)
        if self._file is not None:
            try:
                if is_taken_away(self._file):
                    raise FileNotFoundError(errno.ENOENT, "somebody has removed it")
                self._file.write(text + "\n")
                self._file.flush()
                return
            except OSError as error:
                self._lose(self._file, error)
        self.console(text)

    def _lose(self, file: TextIO, error: OSError) -> None:
        """Go on without a file that cannot be written any more: a log is no reason to end a run."""
        with suppress(OSError):
            file.close()
        self._file = None
        self.warn(
            f"Warning: the log file '{file.name}' cannot be written any more: {error.strerror or error}. "
            "Lines go to the console from now on."
        )

    def console(self, text: str) -> None:
        """Write a line to the console, wherever the log goes."""
        if not self.quiet:
            tell(with_addresses(text))

    def warn(self, text: str) -> None:
        """Write a line to the console, also if the log is quiet."""
        tell(with_addresses(text))

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
            try:
                self._file.close()
            except OSError as error:
                self._lose(self._file, error)
            self._file = None


def is_taken_away(file: TextIO) -> bool:
    """Whether an open file has no name any more, so that nobody would see what is written to it."""
    found = os.fstat(file.fileno())
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 0


@contextmanager
def library_warnings(log: Log) -> Iterator[None]:
    """Have warnings that parts of a program give through Python's logger ``cntk`` stand in a log meanwhile."""
    logger, handler = logging.getLogger("cntk"), _Lines(log)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.line(f"Warning: {record.getMessage()}")
