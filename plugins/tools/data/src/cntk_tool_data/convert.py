"""Makes the files of a data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cntk_core.api import UsageError, did_you_mean
from cntk_tool_data.cifar10 import convert_cifar10
from cntk_tool_data.files import Progress
from cntk_tool_data.mnist import convert_mnist

DATASETS: dict[str, Callable[..., None]] = {"mnist": convert_mnist, "cifar10": convert_cifar10}
"""The data sets by the name that the command line takes."""


def convert(name: str, source: str, target: str = ".", *, checksum: bool = True, only: str = "") -> int:
    """Write the files of a data set, with the names that CNTK's own scripts gave them.

    Args:
        name: one of :data:`DATASETS`.
        source: the folder with what was downloaded.
        target: the folder of the new files; it is made.
        checksum: compare what was downloaded with the published checksums.
        only: ``text`` or ``images``: not the others.

    Raises:
        UsageError: there is no such data set, or the folder is none.
        DataError: files are missing, damaged, or not the published ones.
    """
    if name not in DATASETS:
        raise UsageError(
            f"there is no data set '{name}'{did_you_mean(name, DATASETS)}", hint=f"Data sets: {', '.join(DATASETS)}"
        )
    if not Path(source).is_dir():
        raise UsageError(f"'{source}' is no folder", hint="Give the folder with what you downloaded: --from DIR")
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    DATASETS[name](Path(source), folder, checksum=checksum, only=only, progress=Progress())
    return 0
