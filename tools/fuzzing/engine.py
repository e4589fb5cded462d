"""What all fuzzers have in common: inputs by number, limits of time and memory, verdicts, small findings."""

from __future__ import annotations

import random
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import attrs

from cntk_core.api import CntkError

SECONDS = 2.0
MEGABYTES = 768
READ, REFUSED = "read", "refused"
_EXTREMES = [b"0", b"-1", b"1e999", b"nan", b"inf", b"1_0", b"2147483648", b"4294967296", b"9223372036854775808"]
_EXTREMES += [
    b"18446744073709551616",
    b"9" * 25,
    b"\x00",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\r",
    b"\n",
]
_TRIES, _FEW_TRIES = 3000, 60
"""So often a finding is tried to be made smaller; where an input takes long, less."""

Make = Callable[[random.Random], bytes]
"""Makes an input."""
Check = Callable[[bytes], None]
"""Reads an input twice, and compares. Raises CntkError if both refuse it, :class:`Finding` if they differ."""


class Finding(Exception):
    """What is read differs from what should be read."""


class TooSlow(BaseException):
    """An input takes more than its time. No Exception, so that nothing on the way takes it for its own."""


@attrs.frozen
class Fuzzer:
    """A format that is fuzzed.

    Attributes:
        name: of the format, and of the folder of its corpus.
        make: makes an input out of random numbers.
        check: reads one.
        share: how many inputs it has of 100, where many take long.
        seconds: that an input may take; None: :data:`SECONDS`.
        summary: more to say at the end.
    """

    name: str
    make: Make
    check: Check
    share: int = 100
    seconds: float | None = None
    summary: Callable[[], str] | None = None

    def judge(self, data: bytes) -> Verdict:
        """Return what becomes of an input."""
        return judge(self.check, data, self.seconds or SECONDS)

    def input(self, number: int, seed: int) -> bytes:
        """Return an input: the same number and seed always give the same."""
        return self.make(random.Random(seed * 1_000_003 + number))


@attrs.frozen
class Verdict:
    """What became of an input: :data:`READ`, :data:`REFUSED`, or the kind of a finding with its details."""

    kind: str
    details: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to look at it."""
        return self.kind not in (READ, REFUSED)


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TooSlow in the block when its time is up: time of the processor, so that a busy machine does not count."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def limit_memory() -> None:
    """Let this process have no more than its memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES << 20, hard))


def judge(check: Check, data: bytes, seconds: float = SECONDS) -> Verdict:
    """Return what becomes of an input. A warning of a library is a finding: users would see it raw."""
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            check(data)
    except CntkError as error:
        return Verdict(REFUSED) if str(error) else Verdict("an error without a text", repr(error))
    except Finding as error:
        return Verdict(f"differs: {str(error).partition(':')[0]}", str(error))
    except TooSlow:
        return Verdict("too slow", traceback.format_exc(limit=-6))
    except MemoryError:
        return Verdict("too much memory", traceback.format_exc(limit=-6))
    except Exception as error:
        return Verdict(type(error).__name__, traceback.format_exc(limit=-6))
    return Verdict(READ)


def smaller(fuzzer: Fuzzer, data: bytes, kind: str) -> bytes:
    """Return a part of an input that still is a finding of this kind: parts are left out while that goes well.

    Source: A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input" (2002).
    """
    tries, most = 0, _TRIES if fuzzer.share == 100 else _FEW_TRIES
    step = max(len(data) // 2, 1)
    while tries < most:
        at, before = 0, len(data)
        while at < len(data) and tries < most:
            shorter = data[:at] + data[at + step :]
            tries += 1
            if fuzzer.judge(shorter).kind == kind:
                data = shorter
            else:
                at += step
        if len(data) == before:
            if step == 1:
                break
            step = max(step // 2, 1)
    return data


def mutated(data: bytes, pick: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return an input with some mistakes: bytes that are changed, left out, doubled, moved, or of another input."""
    found = bytearray(data)
    for _ in range(pick.choice((1, 1, 1, 2, 4, 8))):
        at = pick.randrange(len(found) + 1)
        end = min(at + pick.choice((1, 1, 2, 4, 16)), len(found))
        match pick.randrange(8):
            case 0:
                del found[at:end]
            case 1:
                found[at:end] = pick.choice(_EXTREMES)
            case 2:
                found[at:at] = found[at:end] * pick.choice((1, 1, 2, 20))
            case 3:
                found[at:end] = pick.randbytes(end - at)
            case 4:
                found[at:at] = bytes([pick.choice(b"\x00\t\n\r \"#'()*+,-./0129:;=[]e|\x80\xc3\xff")])
            case 5 if at < len(found):
                found[at] ^= 1 << pick.randrange(8)
            case 6 if others:
                other = pick.choice(others)
                start = pick.randrange(len(other) + 1)
                found[at:end] = other[start : start + pick.choice((1, 4, 16, 64))]
            case _:
                del found[pick.randrange(len(found) + 1) :]
    return bytes(found)


def same(what: str, found: object, expected: object) -> None:
    """Raise Finding unless two things are equal."""
    if found != expected:
        raise Finding(f"{what}: read {found!r}\n    expected {expected!r}")
