"""Files of text that tools leave."""

from __future__ import annotations

from pathlib import Path

from cntk_core.errors import TrainingError
from cntk_core.network.files import write_file


def write_text(path: str, text: str) -> None:
    """Write a file; missing folders are made.

    Raises:
        TrainingError: it cannot be written.
    """
    try:
        write_file(Path(path), [text.encode("utf-8", "surrogateescape")])
    except OSError as error:
        raise TrainingError(f"the file '{path}' cannot be written: {error.strerror}") from None
