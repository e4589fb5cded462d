"""Models of CNTK 2, damaged or with something else in them; what is read has to come back when it is written."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.save import save_model
from cntk_model_cntk2.wire import Decoder

from cntk_core.api import UnsupportedError, core_ops
from fuzzing.engine import Finding
from fuzzing.files import folder, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins" / "models" / "cntk2" / "tests"))

from golden_files import archive, index
from mutations import altered, damaged

_FIND = core_ops().find
_MOST = 20_000
"""Larger models are left out: what is in them is in smaller ones."""

_NAMES = sorted(name for name in index() if archive().getinfo(f"{name}.model").file_size <= _MOST)


def make(pick: random.Random) -> bytes:
    content = archive().read(f"{pick.choice(_NAMES)}.model")
    if pick.random() < 0.3:
        return bytes(damaged(content, pick))
    values = Decoder(content, Path("fuzz.model")).file()
    for _ in range(pick.choice((1, 1, 2, 4))):
        altered(values, pick)
    return b"".join(map(bytes, encode(values)))


def check(data: bytes) -> None:
    write("m", data)
    first = load_model(folder() / "m", _FIND).network
    try:
        save_model(first, folder() / "again")
    except UnsupportedError:
        return
    again = load_model(folder() / "again", _FIND).network
    kept = {node.name for node in first.order([node for group in first.roots.values() for node in group])}
    lost = kept - {node.name for node in again}
    # Constants of delays are settings here and variables there.
    if any(first[name].op.role == "input" for name in lost):
        raise Finding(f"lost on the way: {', '.join(sorted(lost))}")
