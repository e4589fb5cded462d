"""Let the clock jump while a training runs: it must come to the model of a run whose clock goes as it should.

    python tools/trials clock --jumps 100

The time of day jumps once in each training, by a second to a century, forward or back, at any of the moments when
somebody asks for it. Some trainings are killed then, and go on with the true time.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import faulty
import kills
from figures import Figure, add_option, record

RECIPE = "search"
"""It saves by the clock."""
HOUR = 3600
JUMPS = (1, 60, HOUR, 24 * HOUR, 365 * 24 * HOUR, 20 * 365 * 24 * HOUR, 100 * 365 * 24 * HOUR)


def _asked(path: Path) -> None:
    path.write_text(str(faulty.library().trials_asked()), encoding="utf-8")


def jump(folder: Path, data: Path, whole: Path, asked: int, chosen: random.Random) -> str:
    """Train with a clock that jumps; return how.

    Raises:
        RuntimeError: it does not come to the same model.
    """
    by, at = chosen.choice((-1, 1)) * chosen.choice(JUMPS), chosen.randrange(asked)
    before = chosen.choice((0, 1, -24 * HOUR))
    stopped = chosen.random() < 0.3
    target, log = folder / "run", folder / "log.txt"
    log.unlink(missing_ok=True)
    shutil.copytree(data, target)
    try:
        child = kills.begin(target, log, lambda: faulty.library().trials_clock(before, at, before + by))
        if stopped:
            kills.stop_after(target, child, chosen.uniform(0.0, 0.3))
        else:
            faulty.check_said(kills.wait(child, faulty.ENOUGH), log)
        faulty.expected_end(target, log, whole)
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"from {before} by {by} s at question {at} of {asked}: {error}") from None
    finally:
        shutil.rmtree(target)
    return f"{'forward' if by > 0 else 'back'}{', killed then' if stopped else ''}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jumps", type=int, default=20, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    add_option(parser)
    options = parser.parse_args(arguments)
    status = faulty.restart("clock", list(arguments or ()))
    if status is not None:
        return status
    kills.load((RECIPE,))
    begun, came, failed, chosen = time.monotonic(), Counter[str](), 0, random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        folder = Path(temporary)
        data, whole = kills.prepared(folder / "data", RECIPE), folder / "whole"
        shutil.copytree(data, whole)
        count = partial(faulty.library().trials_clock, 1, sys.maxsize, 1)
        child = kills.begin(whole, folder / "log.txt", count, after=partial(_asked, folder / "asked"))
        faulty.check_said(kills.wait(child, faulty.ENOUGH), folder / "log.txt")
        asked = int((folder / "asked").read_text(encoding="utf-8"))
        for number in range(options.jumps):
            try:
                came[jump(folder, data, whole, asked, chosen)] += 1
            except RuntimeError as error:
                failed += 1
                print(f"{number}: {error}", flush=True)
    seen = ", ".join(f"{count} {what}" for what, count in sorted(came.items())) + ": models identical"
    print(f"{options.jumps} jumps, {failed} failures: {seen}")
    record(options.record, Figure("the clock jumps", options.jumps, failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
