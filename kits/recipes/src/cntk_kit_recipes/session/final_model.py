"""A final model that is there already: whether it is whole, and how it comes back if it is not."""

from __future__ import annotations

from collections.abc import Callable

from cntk_core.errors import CheckpointError, CntkError, ModelFormatError
from cntk_core.network.model_file import ModelInfo, is_own_format, read_model_info, save_model
from cntk_core.network.tensor_file import verify_tensors
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_kit_recipes.session.generations import ModelPaths, Rebuild, checkpoint_of


def check_final(paths: ModelPaths) -> None:
    """Compare the final model with its checksum; models in other formats have none, unless they were ours once.

    Raises:
        ModelFormatError: it is damaged, or cannot be read.
    """
    with paths.final.open("rb") as file:
        is_ours = is_own_format(file.read(9))
    if is_ours:
        verify_tensors(paths.final)
        read_model_info(paths.final)
    elif checkpoint_of(paths.final).exists():
        raise ModelFormatError(f"'{paths.final}' is damaged: it is no model any more")


def mend_final(paths: ModelPaths, rebuild: Rebuild, say: Callable[[str], None]) -> None:
    """If the final model is there and damaged, write it again from its checkpoint.

    Args:
        paths: the names.
        rebuild: makes the network from the recipe and a checkpoint.
        say: told that it was damaged.

    Raises:
        CheckpointError: its checkpoint cannot restore it; says what to do.
        OSError: it cannot be read or written.
    """
    if not paths.final.is_file():
        return
    try:
        check_final(paths)
        return
    except ModelFormatError as error:
        damage = error.message
    path = checkpoint_of(paths.final)
    try:
        checkpoint = load_checkpoint(path)
        network = rebuild(checkpoint)
    except CntkError as error:
        raise CheckpointError(
            f"the final model cannot be used: {damage}; and its checkpoint cannot restore it: {error.message}",
            hint=f"Bring back a copy of '{paths.final}', or remove it: then the same command goes on from the newest "
            "model before it.",
        ) from None
    say(f"Warning: {damage}; it is written again from its checkpoint '{path}'.")
    info = ModelInfo(checkpoint.progress.epochs, checkpoint.progress.samples)
    save_model(network, paths.final, info, scratch=paths.folder)
