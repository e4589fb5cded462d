"""Let calls of the system fail while a training reads and saves; then let it go on in peace, and compare the models.

    python tools/trials storage --faults 500

Each fault is a training of its own, whose N-th call on files of its folder goes wrong: the disk is full, or becomes
read-only, a write is cut short, a flush or a read fails, once or from then on. The run has to come to its end, or to
say what is wrong; then the same command must come to the model of a run that nothing happened to.
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

import attrs
import faulty
import kills
from figures import Figure, add_option, record

COUNT = sys.maxsize
"""A call that never comes."""
RECIPES = ("lstm", "sizes", "search")


@attrs.frozen
class Place:
    """Where a recipe is tried.

    Attributes:
        data: what it reads.
        whole: a run that nothing happened to.
        counts: its calls, by the classes of calls that a fault means.
    """

    data: Path
    whole: Path
    counts: dict[int, int]


def prepare(folder: Path, recipe: str) -> Place:
    """Train once in peace for each class of calls, and count them."""
    data = kills.prepared(folder / f"{recipe}-data", recipe)
    whole, counter, counts = folder / f"{recipe}-whole", folder / "count", {}
    for calls in sorted({fault.calls for fault in faulty.FAULTS.values()}):
        shutil.rmtree(whole, ignore_errors=True)
        shutil.copytree(data, whole)
        only_count = partial(faulty.fail, whole, faulty.Fault(calls, 0), COUNT)
        child = kills.begin(whole, folder / "log.txt", only_count, after=partial(_write, counter))
        if kills.wait(child, faulty.ENOUGH):
            raise RuntimeError((folder / "log.txt").read_text(encoding="utf-8"))
        counts[calls] = int(counter.read_text(encoding="utf-8"))
    return Place(data, whole, counts)


def _write(path: Path) -> None:
    path.write_text(str(faulty.library().trials_count()), encoding="utf-8")


def disturb(folder: Path, place: Place, kind: str, chosen: random.Random) -> str:
    """Do one fault; return what it came to.

    Raises:
        RuntimeError: not what it must.
    """
    fault = faulty.FAULTS[kind]
    at = chosen.randrange(place.counts[fault.calls])
    target = folder / "run"
    shutil.copytree(place.data, target)
    log, again = folder / "log.txt", folder / "again.txt"
    log.unlink(missing_ok=True)
    again.unlink(missing_ok=True)
    try:
        status = kills.wait(kills.begin(target, log, lambda: faulty.fail(target, fault, at)), faulty.ENOUGH)
        faulty.check_said(status, log)
        if not status and kills.digest(target) != kills.digest(place.whole):
            raise RuntimeError("it ended well with another model")
        faulty.expected_end(target, again, place.whole)
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"{kind}, call {at} of {place.counts[fault.calls]}: {error}") from None
    finally:
        shutil.rmtree(target)
    return "ended with a message" if status else "went on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=30, help="how many")
    parser.add_argument("--kind", choices=["all", *faulty.FAULTS], default="all")
    parser.add_argument("--recipe", choices=["all", *RECIPES], default="all")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    add_option(parser)
    options = parser.parse_args(arguments)
    status = faulty.restart("storage", list(arguments or ()))
    if status is not None:
        return status
    kills.load()
    begun, chosen, came = time.monotonic(), random.Random(options.seed), Counter[str]()
    kinds = list(faulty.FAULTS) if options.kind == "all" else [options.kind]
    recipes = list(RECIPES) if options.recipe == "all" else [options.recipe]
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        folder = Path(temporary)
        places = {recipe: prepare(folder, recipe) for recipe in recipes}
        for number in range(options.faults):
            recipe, kind = recipes[number // len(kinds) % len(recipes)], kinds[number % len(kinds)]
            try:
                came[disturb(folder, places[recipe], kind, chosen)] += 1
            except RuntimeError as error:
                came["failed"] += 1
                print(f"{number}: {recipe}: {error}", flush=True)
            if number % 20 == 19:
                print(f"{number + 1} of {options.faults}: {dict(came)}", flush=True)
    failed = came.pop("failed", 0)
    seen = ", ".join(f"{count} {what}" for what, count in sorted(came.items())) + "; then identical"
    print(f"{options.faults} faults, {failed} failures: {seen}")
    record(options.record, Figure("storage: a call fails", options.faults, failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
