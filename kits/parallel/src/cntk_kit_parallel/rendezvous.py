"""Where the ranks of a run meet, and the secret that they have in common: what the environment says."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import attrs

from cntk_core.errors import UsageError
from cntk_kit_parallel.slurm_step import slurm_step

LOOPBACK = "127.0.0.1"

PORT = 29500
"""Where rank 0 listens if nothing is said."""

SECRET, SECRET_FILE, LISTEN, JOIN = "CNTK_SECRET", "CNTK_SECRET_FILE", "CNTK_BIND", "CNTK_JOIN"
"""Variables with the secret, with a file that has it, with the address at which this machine listens, and one that is 1
for a rank that comes to others which have met already."""

EVERYWHERE = ("0.0.0.0", "::")
"""Addresses that stand for all of a machine."""

SHORTEST = 16
"""Characters of a secret that may be used over a network: whoever has seen a greeting can try shorter ones."""

_NAMES = 30.0
"""Seconds that a name may take to become known: of a machine that has only begun."""

_MANY = 4096
"""Bytes of a file with a secret, and ranks of a run, are not more."""

_GIVE = (
    "Set CNTK_SECRET to the same text for all ranks (openssl rand -hex 16 makes one), or CNTK_SECRET_FILE to a file "
    "with it that only you can read."
)


@attrs.frozen
class Rendezvous:
    """Where ranks meet.

    Attributes:
        rank, size: this rank and how many there are.
        address, port: of rank 0.
        secret: what all ranks of a run know, and nobody else; empty where they are on one machine and trust it.
        listen: address at which this rank listens; empty for that which ``address`` is here.
        late: the others have met already, and one of them waits at the address.
    """

    rank: int
    size: int
    address: str
    port: int
    secret: bytes = attrs.field(repr=False)
    listen: str = ""
    late: bool = False

    @property
    def listens_everywhere(self) -> bool:
        """Whether the ranks listen at all addresses of their machines."""
        return self.listen in EVERYWHERE

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Read ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, else what ``srun`` sets.

        A single rank where neither is set.

        Raises:
            UsageError: a variable makes no sense.
        """
        if "WORLD_SIZE" not in environment:
            found = slurm_step(environment)
            if found is not None:
                return cls.named(environment, found.rank, found.size, found.address, found.port)
        size = _number(environment, "WORLD_SIZE", 1, 1, _MANY)
        rank = _number(environment, "RANK", 0, 0, size - 1)
        alone = size == _number(environment, "LOCAL_WORLD_SIZE", 0, 0, _MANY)
        address = LOOPBACK if alone else environment.get("MASTER_ADDR") or LOOPBACK
        meeting = cls.named(environment, rank, size, address)
        if environment.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true":
            following = _number(environment, "MASTER_PORT", PORT, 1, 65534) + 1  # torchrun listens at the other one
            meeting = attrs.evolve(meeting, port=following)
        return meeting

    @classmethod
    def named(cls, environment: Mapping[str, str], rank: int, size: int, address: str, port: int = PORT) -> Self:
        """Return a meeting at an address that a launcher has told, with what the environment says besides.

        Args:
            environment: has ``CNTK_SECRET`` or ``CNTK_SECRET_FILE``, ``CNTK_BIND``, ``CNTK_JOIN``, and ``MASTER_PORT``.
            rank, size: this rank and how many there are.
            address: of rank 0.
            port: of rank 0, unless ``MASTER_PORT`` says something else.

        Raises:
            UsageError: a variable makes no sense.
        """
        port = _number(environment, "MASTER_PORT", port, 1, 65535)
        late = bool(_number(environment, JOIN, 0, 0, 1))
        return cls(rank, size, address, port, _secret(environment), environment.get(LISTEN, ""), late)


def rendezvous_here() -> Rendezvous:
    """The meeting that the environment of this process names."""
    return Rendezvous.of(os.environ)


def _number(environment: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environment.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
        return int(text)
    raise UsageError(
        f"{name}={text!r} in the environment makes no sense: it is a number from {least} to {most}",
        hint="What starts the ranks sets it; a single process needs none of RANK, WORLD_SIZE and MASTER_PORT.",
    )


# -- the secret -------------------------------------------------------------------------------------------------


def _secret(environment: Mapping[str, str]) -> bytes:
    """Return what the ranks know and nobody else; nothing without it."""
    text = environment.get(SECRET, "")
    if not text and environment.get(SECRET_FILE):
        text = _read(Path(environment[SECRET_FILE]))
    return text.encode(errors="surrogateescape")


def _read(path: Path) -> str:
    """Return the text of a file that only the user can read."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{SECRET_FILE}: {path} is no file")
            if hasattr(os, "geteuid") and (found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o077):
                raise UsageError(
                    f"{SECRET_FILE}: {path} can be read by others, or is another user's", hint=f"chmod 600 {path}"
                )
            text = file.read(_MANY + 1)
    except OSError as error:
        raise UsageError(f"{SECRET_FILE}: {path} cannot be read: {error.strerror}", hint=_GIVE) from None
    if len(text) > _MANY or not text.strip():
        raise UsageError(f"{SECRET_FILE}: {path} has no secret: it is empty, or longer than {_MANY} bytes", hint=_GIVE)
    return text.strip().decode(errors="surrogateescape")


# -- addresses --------------------------------------------------------------------------------------------------


def is_loopback(address: str) -> bool:
    """Whether an address, given in numbers, is reached from this machine alone."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)


def resolve(address: str, end: float = 0.0) -> str:
    """Return an address in numbers, one of IPv4 if there is one.

    Args:
        address: a name or numbers.
        end: time until which the name may become known.

    Raises:
        UsageError: nobody knows the name.
    """
    while True:
        try:
            found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            if time.monotonic() < end:
                time.sleep(0.2)
                continue
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{address!r}, which MASTER_ADDR or CNTK_BIND names, is not known here: {why}") from None
        found.sort(key=lambda one: one[0] != socket.AF_INET)
        return str(found[0][4][0])


def listening_places(meeting: Rendezvous, end: float) -> list[str]:
    """Return the addresses, in numbers, at which rank 0 listens: never more than are needed.

    Where a machine calls itself by a name that is a loopback address (127.0.1.1 in many ``/etc/hosts``), that is one of
    them, and that by which it reaches others is the other one, if the ranks have a secret.

    Args:
        meeting: where the ranks meet.
        end: time until which its name may become known.

    Raises:
        UsageError: a name is not known.
    """
    if meeting.listen:
        return [resolve(meeting.listen)]
    own = resolve(meeting.address, min(end, time.monotonic() + _NAMES))
    named_loopback = is_loopback(meeting.address) or meeting.address.partition(".")[0] == "localhost"
    if is_loopback(own) and not named_loopback and meeting.secret:
        return [own, *_outward()]
    return [own]


def _outward() -> list[str]:
    """Return the address by which this machine reaches others, if it does. Nothing is sent for that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address of documentation, which nobody has
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def check_secret(meeting: Rendezvous) -> None:
    """See that nobody can join the ranks who should not.

    Raises:
        UsageError: they talk over a network, and have no secret or a short one.
    """
    if len(meeting.secret) >= SHORTEST:
        return
    for address in filter(None, (meeting.address, meeting.listen)):
        if not is_loopback(resolve(address)):
            need = f"a secret of {SHORTEST} characters at least" if meeting.secret else "a secret"
            raise UsageError(f"ranks that meet at {address}, where others can reach them, need {need}", hint=_GIVE)
