"""Checkpoints: one folder per generation, with everything that training needs beside the model.

The generations of a model lie in ``MODEL.checkpoints``. In each, ``arrays.safetensors`` has the parameters
(``value/NAME``), the precomputed values (``precomputed/NAME``), the learner's slots (``slot/SLOT/NAME``), its
numbers (``state/NAME``, one element each, in double precision), inside an epoch, what nodes carry from minibatch to
minibatch (``carried/NUMBER``), and the state of each rank of a parallel training (``rank/NUMBER/...``);
``manifest.json`` has the SHA-256 of each file, how far training had come, the settings as text, and which plugins of
which wheels took part. A generation
appears in one step, complete and flushed to the disk; its name ends in a part of the manifest's SHA-256.

Beside each model stands a small file, ``MODEL.n.ckp``, that names its generation; ``MODEL.n.m.ckp`` names one of m
minibatches after that. People and scripts move and remove it
as they always did; generations that none of these files names are removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError
from cntk_core.network.files import SCRATCH, remove, replace_file, settle, temporary_folder
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.network.tensor_file import read_tensors, write_tensors
from cntk_core.records.origin import as_entries
from cntk_core.training.files.position import Position

FORMAT = "cntk-core-checkpoint"
VERSION = 1
SUFFIX = ".ckp"
FOLDER = ".checkpoints"
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20

_OURS = re.compile(rf"[0-9]+-[0-9a-f]{{16}}(\.tmp)?|new\.tmp|{SCRATCH}")
"""Names in the folder of generations; ``new.tmp`` is what earlier versions called a new one."""

_STATE = "state/"
_CARRIED = "carried/"


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
        recipe: these settings as text, by key.
        inside: entries of a :class:`Position` in the next epoch; empty between two epochs.
        steps: updates done.
        control: what automatic control remembers (``ControlState.entries``).
        ranks: what ranks that train together say of themselves (``Ranks.entries``); empty for a serial training.
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
    steps: int = 0
    control: Mapping[str, Any] = attrs.field(factory=dict)
    recipe: Mapping[str, str] = attrs.field(factory=dict)
    inside: Mapping[str, Any] = attrs.field(factory=dict)
    ranks: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Checkpoint:
    """A checkpoint that was read and verified."""

    progress: Progress
    arrays: Mapping[str, NDArray[Any]]

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the learner's slots."""
        return tuple(dict.fromkeys(name.split("/")[1] for name in self.arrays if name.startswith("slot/")))

    @property
    def position(self) -> Position | None:
        """The place inside the next epoch; None between two epochs.

        Raises:
            CheckpointError: it makes no sense.
        """
        if not self.progress.inside:
            return None
        carried = {
            int(name.removeprefix(_CARRIED)): array for name, array in self.arrays.items() if name.startswith(_CARRIED)
        }
        return Position.of(self.progress.inside, carried)


def save_checkpoint(
    path: Path,
    folder: Path,
    network: Network,
    store: ParameterStore,
    progress: Progress,
    *,
    leave_out: Iterable[str] = (),
    position: Position | None = None,
    of_ranks: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Write a generation and then, in one step, the file that names it.

    Args:
        path: the file (``MODEL.n.ckp``).
        folder: where generations lie, beside it.
        network, store, progress: what is saved.
        leave_out: slots that need not be kept.
        position: the place inside the next epoch.
        of_ranks: the state of each of several ranks, by names that begin with ``rank/``.

    Raises:
        OSError: it could not be written; what was there is untouched.
    """
    arrays = {**_arrays(network, store, set(leave_out)), **(of_ranks or {})}
    if position is not None:
        inside, carried = position.entries()
        progress = attrs.evolve(progress, inside=inside)
        arrays.update({f"{_CARRIED}{number}": array for number, array in enumerate(carried)})
    with temporary_folder(folder) as new:
        written = hashlib.sha256()  # of what was written, not of what is found there
        texts = {"format": FORMAT, "version": str(VERSION)}
        write_tensors(new / ARRAYS, arrays, texts, scratch=new, seen=written.update)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "progress": attrs.asdict(progress),
            "files": {ARRAYS: written.hexdigest()},
            "plugins": as_entries(network.origins),
        }
        text = _json(manifest)
        replace_file(new / MANIFEST, [text], scratch=new)
        digest = hashlib.sha256(text).hexdigest()
        generation = folder / f"{progress.epochs}-{digest[:16]}"
        remove(generation)  # the same one, written by a run that was killed before it had a name
        settle(new, generation)
    pointer = {"format": FORMAT, "version": VERSION, "generation": f"{folder.name}/{generation.name}", "sha256": digest}
    replace_file(path, [_json(pointer)], scratch=folder)


def _arrays(network: Network, store: ParameterStore, leave_out: set[str]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {f"value/{p.name}": store.value(p) for p in store.parameters}
    for node in network:
        if node.value is not None and not isinstance(node, Parameter):
            arrays[f"precomputed/{node.name}"] = node.value
    for slot in store.slots:
        if slot not in leave_out:
            arrays.update({f"slot/{slot}/{p.name}": store.slot(slot, p) for p in store.parameters if p.learned})
    arrays.update({f"{_STATE}{name}": np.array([number], np.float64) for name, number in store.state.items()})
    return arrays


def _json(entries: Mapping[str, Any]) -> bytes:
    return json.dumps(entries, indent=1, sort_keys=True).encode() + b"\n"


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the generation that a file names, and verify it.

    Raises:
        CheckpointError: it is missing, damaged, or from a newer version.
    """
    pointer = _read(path, path)
    generation = _generation(path, pointer)
    if not (generation / MANIFEST).is_file():
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its generation is missing")
    if _sha256(generation / MANIFEST) != pointer.get("sha256"):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: the SHA-256 of '{MANIFEST}' does not match")
    manifest = _read(generation / MANIFEST, path)
    try:
        progress = _progress(manifest["progress"])
        wanted = {str(name): str(digest) for name, digest in manifest["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest makes no sense") from None
    if ARRAYS not in wanted or any("/" in name or "\\" in name or name.startswith(".") for name in wanted):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: its manifest names other files")
    for name, digest in wanted.items():
        if not (generation / name).is_file():
            raise CheckpointError(f"the checkpoint '{path}' is damaged: '{name}' is missing")
        if _sha256(generation / name) != digest:
            raise CheckpointError(f"the checkpoint '{path}' is damaged: the SHA-256 of '{name}' does not match")
    return Checkpoint(progress, read_tensors(generation / ARRAYS, error=CheckpointError).arrays)


def _generation(path: Path, pointer: Mapping[str, Any]) -> Path:
    """The folder that a file names. It must lie where generations lie."""
    parts = str(pointer.get("generation")).split("/")
    if len(parts) != 2 or not parts[0].endswith(FOLDER) or any(part.startswith(".") or "\\" in part for part in parts):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: it names no generation")
    return path.parent / parts[0] / parts[1]


def _read(file: Path, path: Path) -> dict[str, Any]:
    """Read a pointer or a manifest of the checkpoint ``path``."""
    what = "it" if file == path else "its manifest"
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(MAX_MANIFEST))
    except OSError as error:
        raise CheckpointError(f"the checkpoint '{path}' cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"the checkpoint '{path}' is damaged: {what} is not valid JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"the checkpoint '{path}' is damaged: {what} makes no sense")
    if found.get("version") != VERSION:
        raise CheckpointError(
            f"the checkpoint '{path}' has format version {found.get('version')}; this program reads {VERSION}"
        )
    return found


def remove_unnamed(folder: Path) -> None:
    """Remove the generations that no file beside the folder names, and what a killed run had begun to write there.

    What has other names is not ours. Nothing is removed while there is a file that cannot be read.
    """
    if not folder.is_dir():
        return
    try:
        named = set(_named(folder.parent))
    except CheckpointError:
        return
    for generation in list(folder.iterdir()):
        if generation not in named and _OURS.fullmatch(generation.name):
            remove(generation)
    if not any(folder.iterdir()):
        folder.rmdir()


def _named(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.endswith(SUFFIX) and path.is_file():
            yield _generation(path, _read(path, path))


def _progress(entries: Mapping[str, Any]) -> Progress:
    kinds = {
        "learning_rate": float,
        "criterion": float,
        "settings": str,
        "control": dict,
        "recipe": dict,
        "inside": dict,
        "ranks": dict,
    }
    later: dict[str, Any] = {
        "steps": 0,
        "control": {},
        "recipe": {},
        "inside": {},
        "ranks": {},
    }  # not in the checkpoints of the first releases
    names = [field.name for field in attrs.fields(Progress)]
    found = {name: entries.get(name, later[name]) if name in later else entries[name] for name in names}
    return Progress(**{name: kinds.get(name, int)(value) for name, value in found.items()})


def restore_slots(checkpoint: Checkpoint, store: ParameterStore) -> tuple[str, ...]:
    """Take the learner's slots and numbers back; return the names of the slots that were there.

    Raises:
        CheckpointError: an array does not fit the parameter.
    """
    found = tuple(slot for slot in checkpoint.slots if slot in store.slots)
    for slot in found:
        for parameter in store.parameters:
            array = checkpoint.arrays.get(f"slot/{slot}/{parameter.name}")
            if array is not None:
                _copy(array, store.slot(slot, parameter), f"{slot} of '{parameter.name}'")
    store.state = {}
    for name, array in checkpoint.arrays.items():
        if name.startswith(_STATE):
            number = np.empty(1, np.float64)
            _copy(array, number, f"the number '{name.removeprefix(_STATE)}'")
            store.state[name.removeprefix(_STATE)] = float(number[0])
    return found


def restore_store(checkpoint: Checkpoint, store: ParameterStore) -> None:
    """Take the parameters and the learner's slots back into the buffers of a training that runs.

    Raises:
        CheckpointError: an array is missing or does not fit.
    """
    for parameter in store.parameters:
        array = checkpoint.arrays.get(f"value/{parameter.name}")
        if array is None:
            raise CheckpointError(f"the checkpoint has no parameter '{parameter.name}'")
        _copy(array, store.value(parameter), f"'{parameter.name}'")
    restore_slots(checkpoint, store)


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
