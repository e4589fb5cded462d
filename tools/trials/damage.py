"""Flip bits of files and cut them: what we wrote is never believed, what others wrote ends in numbers or a message.

    python tools/trials damage --count 400

Models have to be refused by name. A training whose checkpoint is damaged has to go on from an earlier one to the same
model, or to say what is wrong. Data have no checksum: a damaged one trains, or is refused.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import data
import faulty
import kills
from figures import Figure, add_option, record

from cntk_core.errors import ModelFormatError
from cntk_core.network.model_file import load_model
from cntk_core.ops.table import core_ops

RECIPE = "sizes"


def damaged(content: bytes, chosen: random.Random) -> bytes:
    """Flip a bit, cut, or put zeros into a piece."""
    kind, at = chosen.random(), chosen.randrange(len(content))
    if kind < 0.6:
        return content[:at] + bytes([content[at] ^ 1 << chosen.randrange(8)]) + content[at + 1 :]
    if kind < 0.9:
        return content[:at]
    end = min(len(content), at + chosen.choice((1, 512, 4096)))
    return content[:at] + bytes(end - at) + content[end:]


def damage_model(path: Path, content: bytes, chosen: random.Random) -> None:
    """Damage a model, and read it.

    Raises:
        RuntimeError: it is believed.
    """
    changed = damaged(content, chosen)
    if changed == content:
        return
    path.write_bytes(changed)
    try:
        load_model(path, core_ops().find)
    except ModelFormatError:
        return
    raise RuntimeError("a damaged model was read")


def damage_checkpoint(folder: Path, stopped: Path, whole: Path, chosen: random.Random) -> None:
    """Damage one file of a training that was killed, and go on.

    Raises:
        RuntimeError: it comes to another model, or says nothing.
    """
    target, log = folder / "run", folder / "log.txt"
    log.unlink(missing_ok=True)
    shutil.copytree(stopped, target)
    files = sorted(
        path for path in target.rglob("*") if path.is_file() and path.relative_to(target).parts[0][:7] == "net.dnn"
    )
    file = chosen.choice(files)
    file.write_bytes(damaged(file.read_bytes(), chosen))
    try:
        status = kills.wait(kills.begin(target, log), faulty.ENOUGH)
        faulty.check_said(status, log)
        if not status and kills.digest(target) != kills.digest(whole):
            raise RuntimeError("it went on to another model")
    except RuntimeError as error:
        raise RuntimeError(f"{file.relative_to(target)}: {error}") from None
    finally:
        shutil.rmtree(target)


def damage_data(folder: Path, form: str, chosen: random.Random) -> None:
    """Damage data, and train.

    Raises:
        RuntimeError: it ended otherwise than well or with a message.
    """
    target, log = folder / "run", folder / "log.txt"
    log.unlink(missing_ok=True)
    make, name = data.FORMATS[form]
    make(target)
    (target / name).write_bytes(damaged((target / name).read_bytes(), chosen))
    try:
        faulty.check_said(kills.wait(kills.begin(target, log), faulty.ENOUGH), log)
    except RuntimeError as error:
        raise RuntimeError(f"{form}: {error}") from None
    finally:
        shutil.rmtree(target)


def stopped_training(folder: Path, whole: Path, data_folder: Path) -> Path:
    """Train to the end, and then once more until a checkpoint is there."""
    shutil.copytree(data_folder, whole)
    kills.run(whole)
    (whole / "log.txt").unlink()
    for attempt in range(50):
        target = folder / f"stopped-{attempt}"
        shutil.copytree(data_folder, target)
        kills.stop_after(target, kills.begin(target, folder / "log.txt"), 0.01 * attempt)
        if list(target.glob("net.dnn*.ckp")) and not (target / "net.dnn").exists():
            return target
        shutil.rmtree(target)
    raise RuntimeError("no training could be stopped with a checkpoint")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many: 8 of 10 are models, 1 checkpoints, 1 data")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    add_option(parser)
    options = parser.parse_args(arguments)
    kills.load(("sizes", "lstm"))
    begun, came, failed, chosen = time.monotonic(), Counter[str](), 0, random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        folder = Path(temporary)
        whole = folder / "whole"
        stopped = stopped_training(folder, whole, kills.prepared(folder / "data", RECIPE))
        content = (whole / "net.dnn").read_bytes()
        for number in range(options.count):
            kind = {0: "checkpoints", 1: "data"}.get(number % 10, "models")
            came[kind] += 1
            try:
                if kind == "models":
                    damage_model(folder / "model", content, chosen)
                elif kind == "checkpoints":
                    damage_checkpoint(folder, stopped, whole, chosen)
                else:
                    damage_data(folder, list(data.FORMATS)[number // 10 % len(data.FORMATS)], chosen)
            except RuntimeError as error:
                failed += 1
                print(f"{number}: {error}", flush=True)
    seen = ", ".join(f"{count} {what}" for what, count in sorted(came.items()))
    print(f"{options.count} files damaged, {failed} failures: {seen}")
    record(options.record, Figure("files damaged", options.count, failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
