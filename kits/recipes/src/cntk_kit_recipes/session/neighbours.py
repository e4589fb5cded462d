"""Two trainings whose files have the same names: the model of epoch 1 of ``net`` and the final one of ``net.1``.

A training is known by what lies beside its final model: the folder of its checkpoints, which stays when it has ended,
or its lock. CNTK takes such a file for its own, whoever wrote it; here neither training touches those of the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cntk_core.errors import CntkError, TrainingError
from cntk_core.network.model_file import read_model_info
from cntk_core.training.files.checkpoint import FOLDER
from cntk_kit_recipes.locks.lock import SUFFIX
from cntk_kit_recipes.session.generations import ModelPaths

_NUMBERED = re.compile(r"(.+)\.([1-9][0-9]{0,8})")


def epoch_of(model: Path, other: Path) -> int | None:
    """Return after which epoch of the training of ``other`` its model has the name ``model``; None if none has it."""
    match = _NUMBERED.fullmatch(model.name)
    return int(match[2]) if match and other == model.with_name(match[1]) else None


def check_own_name(final: Path) -> None:
    """Make sure that a final model is not the model of an epoch of another training.

    Raises:
        TrainingError: it is.
    """
    match = _NUMBERED.fullmatch(final.name)
    if match is None or _is_training(final):
        return
    other, epoch = final.with_name(match[1]), int(match[2])
    if (_is_locked(other) or (_is_training(other) and final.is_file())) and epoch < _epochs(other):
        raise TrainingError(
            f"modelPath '{final}' is the name of the model after epoch {epoch} of the training of '{other}'",
            hint=f"Give another modelPath, such as '{final.with_name(f'{match[1]}-{epoch}')}'.",
        )


def check_names_of_epochs(paths: ModelPaths, *, all_of_them: bool) -> None:
    """Make sure that no model of an epoch is the final model of another training.

    Args:
        paths: the names.
        all_of_them: those beyond the last epoch, too, which a training that begins anew removes.

    Raises:
        TrainingError: one is.
    """
    for epoch in _numbers(paths.final):
        model = paths.final.with_name(f"{paths.final.name}.{epoch}")
        if (epoch < paths.epochs or all_of_them) and _is_training(model):
            raise TrainingError(
                f"the model after epoch {epoch} of the training of '{paths.final}' would have the name of '{model}', "
                "which is the modelPath of another training",
                hint=f"Give another modelPath than '{paths.final}', or move the files of '{model}' elsewhere.",
            )


def _numbers(final: Path) -> Iterable[int]:
    """The numbers of names that have one behind that of a final model, whatever is behind the number."""
    pattern = re.compile(re.escape(final.name) + r"\.([1-9][0-9]{0,8})(\..*)?")
    names: Iterator[Path] = final.parent.iterdir() if final.parent.is_dir() else iter(())
    return sorted({int(match[1]) for name in names if (match := pattern.fullmatch(name.name))})


def _is_training(final: Path) -> bool:
    return final.with_name(final.name + FOLDER).is_dir() or _is_locked(final)


def _is_locked(final: Path) -> bool:
    try:
        return bool(final.with_name(final.name + SUFFIX).read_bytes().strip(b"\0 \n"))
    except OSError:
        return False


def _epochs(final: Path) -> int:
    """How many epochs a training had; a large number where nothing says it."""
    try:
        known = read_model_info(final).epochs if final.is_file() else None
    except CntkError:
        known = None
    return 10**9 if known is None else known
