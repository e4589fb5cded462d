"""What W&B's library has written of runs while it was offline.

A ``.wandb`` file is a log as LevelDB has it (https://github.com/google/leveldb/blob/main/doc/log_format.md) behind a
head of seven bytes; each record is one of W&B's protocol buffers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

_BLOCK, _HEAD, _PART_HEAD = 1 << 15, 7, 7
_LAST_PARTS = (1, 4)  # a whole record, the last part of one


@attrs.define
class Told:
    """What a run was told.

    Attributes:
        id: of the run.
        name: of the run.
        project: that it belongs to.
        settings: its config.
        history: the metrics, in their order.
        files: that it keeps.
        exit_code: how it ended; None as long as it has not.
    """

    id: str = ""
    name: str = ""
    project: str = ""
    settings: dict[str, Any] = attrs.Factory(dict)
    history: list[dict[str, Any]] = attrs.Factory(list)
    files: list[str] = attrs.Factory(list)
    exit_code: int | None = None


def runs(folder: Path) -> list[Told]:
    """Read all runs in a folder of W&B, in the order in which they began.

    Its process writes on when a run has ended already, so it is asked to end first.
    """
    import wandb

    wandb.teardown()
    paths = sorted(folder.glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_ctime_ns)
    return [read(path) for path in paths]


def read(path: Path) -> Told:
    """Read what a run was told."""
    from wandb.proto import wandb_internal_pb2

    told = Told()
    for data in _records(path.read_bytes()):
        record: Any = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        match record.WhichOneof("record_type"):
            case "run":
                told.id, told.name, told.project = record.run.run_id, record.run.display_name, record.run.project
                told.settings.update(_items(record.run.config.update))
            case "history":
                told.history.append(_items(record.history.item))
            case "files":
                told.files += [file.path for file in record.files.files]
            case "exit":
                told.exit_code = record.exit.exit_code
    return told


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(data: bytes) -> Iterator[bytes]:
    at, record = _HEAD, b""
    while at + _PART_HEAD <= len(data):
        if _BLOCK - at % _BLOCK < _PART_HEAD:  # too little room in a block for the head of a part
            at += _BLOCK - at % _BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        at += _PART_HEAD
        record += data[at : at + size]
        at += size
        if kind in _LAST_PARTS:
            yield record
            record = b""
