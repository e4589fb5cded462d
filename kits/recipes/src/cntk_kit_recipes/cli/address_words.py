"""Words of a command line that are addresses of files elsewhere, such as ``s3://bucket/net.dnn``.

A verb gets the paths of copies in their place, what it prints names the addresses again, and what it wrote is sent at
the end. Words ``key=value`` are the recipe's, which reads its addresses itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase
from typing import TextIO

_OPTION = re.compile(r"(--[a-z][a-z-]*=)?([A-Za-z][A-Za-z0-9+.-]+://.*)")


@contextmanager
def addresses_in(words: list[str]) -> Iterator[list[str]]:
    """Within, the words name copies; at the end, unless it fails, what was written to them is sent.

    Raises:
        CntkError: a file cannot be brought here, or sent.
    """
    if not any(_OPTION.fullmatch(word) for word in words):
        yield words
        return
    from cntk_core.plugins.addresses import deliver, local_path

    parts = [(word, _OPTION.fullmatch(word)) for word in words]
    here = [word if found is None else f"{found[1] or ''}{local_path(found[2])}" for word, found in parts]
    with redirect_stdout(_Shown(sys.stdout)):
        yield here
    deliver()


class _Shown(TextIOBase):
    """Writes to a stream, with addresses in place of the paths of copies."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        from cntk_core.plugins.addresses import with_addresses

        self._stream.write(with_addresses(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()
