"""Checkpoints: one folder per generation, with everything that training needs beside the model.

``arrays.safetensors`` has the parameters (``value/NAME``), the precomputed values (``precomputed/NAME``) and the
learner's slots (``slot/SLOT/NAME``); ``manifest.json`` has the SHA-256 of each file and how far training had come. A
generation appears under its name in one step, complete and flushed to the disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CheckpointError
from cntk_core.network.files import new_folder, write_file
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.network.tensor_file import read_tensors, write_tensors
from cntk_core.training.store import ParameterStore

VERSION = 1
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20


@attrs.frozen
class Progress:
    """How far training had come when a checkpoint was written.

    Attributes:
        epochs: epochs done.
        samples: samples seen in all of them.
        epoch_samples: samples of the last epoch.
        learning_rate: of the last epoch, per sample.
        criterion: average of the training criterion in the last epoch.
        minibatch_size: of the last epoch.
        seed: of the random streams. They are keyed by seed, epoch and minibatch, so nothing else need be kept.
        reader_epoch, reader_samples: where reading goes on: the next epoch, and samples of it that are done.
        settings: hash of the settings that change results.
    """

    epochs: int
    samples: int = 0
    epoch_samples: int = 0
    learning_rate: float = 0.0
    criterion: float = 0.0
    minibatch_size: int = 0
    seed: int = 0
    reader_epoch: int = 0
    reader_samples: int = 0
    settings: str = ""


@attrs.frozen(eq=False)
class Checkpoint:
    """A checkpoint that was read and verified."""

    progress: Progress
    arrays: Mapping[str, NDArray[Any]]

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the learner's slots."""
        return tuple(dict.fromkeys(name.split("/")[1] for name in self.arrays if name.startswith("slot/")))


def save_checkpoint(
    path: Path, network: Network, store: ParameterStore, progress: Progress, *, leave_out: Iterable[str] = ()
) -> None:
    """Write a generation in one step. ``leave_out`` names slots that need not be kept.

    Raises:
        OSError: it could not be written; an older generation of this name is untouched.
    """
    arrays: dict[str, NDArray[Any]] = {f"value/{p.name}": store.value(p) for p in store.parameters}
    for node in network:
        if node.value is not None and not isinstance(node, Parameter):
            arrays[f"precomputed/{node.name}"] = node.value
    skipped = set(leave_out)
    for slot in store.slots:
        if slot not in skipped:
            arrays.update({f"slot/{slot}/{p.name}": store.slot(slot, p) for p in store.parameters if p.learned})
    with new_folder(path) as folder:
        write_tensors(folder / ARRAYS, arrays, {"format": "cntk-core-checkpoint", "version": str(VERSION)})
        manifest = {
            "format": "cntk-core-checkpoint",
            "version": VERSION,
            "progress": attrs.asdict(progress),
            "files": {ARRAYS: _sha256(folder / ARRAYS)},
        }
        write_file(folder / MANIFEST, [json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a generation and verify it.

    Raises:
        CheckpointError: it is missing, damaged, or from a newer version.
    """
    manifest = _manifest(path)
    if manifest.get("version") != VERSION:
        raise CheckpointError(
            f"the checkpoint '{path}' has format version {manifest.get('version')}; this program reads {VERSION}"
        )
    try:
        progress = _progress(manifest["progress"])
        wanted = {str(name): str(digest) for name, digest in manifest["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest makes no sense") from None
    if ARRAYS not in wanted or any("/" in name or "\\" in name or name.startswith(".") for name in wanted):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest names other files")
    for name, digest in wanted.items():
        if not (path / name).is_file():
            raise CheckpointError(f"the checkpoint '{path}' is damaged: '{name}' is missing")
        if _sha256(path / name) != digest:
            raise CheckpointError(f"the checkpoint '{path}' is damaged: the SHA-256 of '{name}' does not match")
    return Checkpoint(progress, read_tensors(path / ARRAYS, error=CheckpointError).arrays)


def _manifest(path: Path) -> dict[str, Any]:
    try:
        with (path / MANIFEST).open("rb") as file:
            content = file.read(MAX_MANIFEST)
        found = json.loads(content)
    except OSError as error:
        reason = "is not a folder" if path.exists() and not path.is_dir() else f"has no manifest ({error.strerror})"
        raise CheckpointError(f"the checkpoint '{path}' {reason}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest is not valid JSON") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest makes no sense")
    return found


def _progress(entries: Mapping[str, Any]) -> Progress:
    kinds = {"learning_rate": float, "criterion": float, "settings": str}
    return Progress(**{field.name: kinds.get(field.name, int)(entries[field.name]) for field in attrs.fields(Progress)})


def restore_slots(checkpoint: Checkpoint, store: ParameterStore) -> tuple[str, ...]:
    """Take the learner's slots back; return the names of those that were there.

    Raises:
        CheckpointError: an array does not fit the parameter.
    """
    found = tuple(slot for slot in checkpoint.slots if slot in store.slots)
    for slot in found:
        for parameter in store.parameters:
            array = checkpoint.arrays.get(f"slot/{slot}/{parameter.name}")
            if array is not None:
                _copy(array, store.slot(slot, parameter), f"{slot} of '{parameter.name}'")
    return found


def restore_values(checkpoint: Checkpoint, network: Network) -> None:
    """Take the parameters and precomputed values back into a network that is built but not yet stored.

    Raises:
        CheckpointError: an array is missing or does not fit.
    """
    for parameter in network.parameters:
        array = checkpoint.arrays.get(f"value/{parameter.name}")
        if array is None:
            raise CheckpointError(f"the checkpoint has no parameter '{parameter.name}'")
        value = np.empty(parameter.known_shape, network.dtype)
        _copy(array, value, f"'{parameter.name}'")
        parameter.value = value
    for node in network:
        array = checkpoint.arrays.get(f"precomputed/{node.name}")
        if array is not None and node.op.role == "precompute":
            node.value = array.astype(network.dtype)


def _copy(array: NDArray[Any], target: NDArray[Any], what: str) -> None:
    if array.shape != target.shape:
        raise CheckpointError(f"the checkpoint does not fit the model: {what} is {array.shape}, not {target.shape}")
    target[...] = array


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
