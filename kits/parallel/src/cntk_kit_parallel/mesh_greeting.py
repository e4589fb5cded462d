"""The greeting of two ranks: each shows the other one that it knows the secret, without telling it.

The rank that comes (the guest) and the one that listens (the host) send, in this order::

    guest   hello: rank, size, port, a number that nobody has had before
    host    the same of its own
    guest   proof: HMAC-SHA256 of both hellos by the secret, as the guest's
    host    verdict, and the same as the host's

Both numbers, both ranks and the role are in a proof, so one that was overheard is of no use again, nor one that is sent
back. The keys of the connection follow from the secret and the hellos (a challenge and response with mutual proof, as
ISO/IEC 9798-4 describes it; no certificate, and nothing is encrypted).

Each side is a generator that yields what to send and how many bytes it wants next: it knows nothing of sockets.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable, Generator

import attrs

_MAGIC = b"CNTKtcp3"
_HELLO = struct.Struct("<8sIIHB32s")
"""Magic, rank, size, port, two bits (messages shall be sealed; see :attr:`Own.late`), and the number."""

_PROOF = 32

WELCOME, OTHER_SECRET, TAKEN, OTHER_SIZE, LATER, STILL_HERE = (bytes([number]) for number in range(6))
"""Verdicts of a host. The last two are those of ranks that have met: one that comes is taken in later; it is, or seems
to be, among them still."""

_SEALED, _LATE = 1, 2

GREETING_BYTES = 2 * (_HELLO.size + _PROOF) + 1
"""All that is sent in a greeting."""


class Stranger(Exception):
    """Who answers is no rank, or does not know the secret."""


class TurnedAway(Exception):
    """The host has said that it does not want this rank: the verdict is in ``args``."""


@attrs.frozen
class Own:
    """What a rank says of itself.

    Attributes:
        rank, size: this rank and how many there are.
        secret: of the run.
        sealed: it wants messages sealed.
        port: at which it listens.
        late: of a host: the ranks have met already; of a guest: it only comes to such ranks.
    """

    rank: int
    size: int
    secret: bytes = attrs.field(repr=False)
    sealed: bool
    port: int = 0
    late: bool = False


@attrs.frozen
class Known:
    """Whom a rank has greeted.

    Attributes:
        rank: the other one.
        port: at which it listens.
        size: how many ranks there are, as it says.
        keys: of what this rank sends and of what it gets; None if messages are not sealed.
        late: see :class:`Own`; for a guest, that it waits at this host until it is taken in.
    """

    rank: int
    port: int
    size: int
    keys: tuple[bytes, bytes] | None
    late: bool = False


Steps = Generator[tuple[bytes, int], bytes, Known]
"""Sends pairs of bytes to be sent and the number of bytes to be read then."""


def visit(own: Own, host: int) -> Steps:
    """Greet the rank ``host``, which listens.

    Raises:
        Stranger: it is somebody else.
        TurnedAway: it does not want this rank.
    """
    mine = _hello(own)
    theirs = yield mine, _HELLO.size
    known = _read(theirs, own)
    if known.rank != host and not known.late:  # the first of ranks that have met need not be the one of that number
        raise Stranger("another rank answers")
    said = mine + theirs
    verdict = yield _prove(own, b"guest", said), 1
    if verdict != (LATER if known.late else WELCOME):
        raise TurnedAway(verdict)
    proof = yield b"", _PROOF
    if not hmac.compare_digest(proof, _prove(own, b"host", said)):
        raise Stranger("it does not know the secret")
    return _with_keys(known, own, theirs, said, b"guest", b"host")


def receive_guest(own: Own, judge: Callable[[Known], bytes]) -> Steps:
    """Greet somebody who has come.

    Args:
        own: this rank.
        judge: gives the verdict on a rank that knows the secret.

    Raises:
        Stranger: it is nobody of ours.
        TurnedAway: it is no rank that can come; it has been told.
    """
    theirs = yield b"", _HELLO.size
    known = _read(theirs, own)
    mine = _hello(own)
    said = theirs + mine
    proof = yield mine, _PROOF
    verdict = judge(known) if hmac.compare_digest(proof, _prove(own, b"guest", said)) else OTHER_SECRET
    if verdict not in (WELCOME, LATER):
        yield verdict, 0
        raise TurnedAway(verdict)
    yield verdict + _prove(own, b"host", said), 0
    return _with_keys(known, own, theirs, said, b"host", b"guest")


def _hello(own: Own) -> bytes:
    bits = _SEALED * own.sealed + _LATE * own.late
    return _HELLO.pack(_MAGIC, own.rank, own.size, own.port, bits, secrets.token_bytes(32))


def _read(hello: bytes, own: Own) -> Known:
    magic, rank, size, port, bits, _ = _HELLO.unpack(hello)
    if magic != _MAGIC or rank == own.rank:
        raise Stranger("it is no rank of this version")
    return Known(rank, port, size, None, bool(bits & _LATE))


def _prove(own: Own, role: bytes, said: bytes) -> bytes:
    return hmac.digest(own.secret, role + b" of a mesh:" + said, "sha256")


def _with_keys(known: Known, own: Own, theirs: bytes, said: bytes, here: bytes, there: bytes) -> Known:
    """Add the keys, if one of the two wants messages sealed."""
    if not own.sealed and not _HELLO.unpack(theirs)[4] & _SEALED:
        return known
    return attrs.evolve(
        known, keys=(_prove(own, b"messages of " + here, said), _prove(own, b"messages of " + there, said))
    )
