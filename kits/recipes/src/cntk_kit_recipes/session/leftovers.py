"""What killed runs of earlier versions left beside a model: they wrote to ``NAME.tmp`` there."""

from __future__ import annotations

import re
from pathlib import Path

from cntk_core.network.files import TEMPORARY
from cntk_core.network.model_file import is_own_format

_CHECKPOINT = b'{\n "format": "cntk-core-checkpoint"'


def remove_leftovers(model: Path) -> None:
    """Remove the unfinished models and checkpoints that stand beside a model under the names of a training.

    A file is ours if it has such a name and begins as ours do; folders and everything else stay.

    Raises:
        OSError: one cannot be removed.
    """
    if not model.parent.is_dir():
        return
    pattern = re.compile(rf"{re.escape(model.name)}(\.[0-9]+)?(\.[0-9]+)?(\.ckp)?{re.escape(TEMPORARY)}")
    for found in list(model.parent.iterdir()):
        if pattern.fullmatch(found.name) and found.is_file() and not found.is_symlink() and _is_ours(found):
            found.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        begin = file.read(len(_CHECKPOINT))
    return begin == _CHECKPOINT or is_own_format(begin)
