"""A connection between each two ranks, and the messages that have come over them.

A thread of each rank reads whatever comes, so that nobody who sends waits for ever.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cntk_core.errors import RankGone
from cntk_kit_parallel.mesh_bytes import LARGEST, BadMessage, Bytes, await_room
from cntk_kit_parallel.mesh_meeting import connect
from cntk_kit_parallel.mesh_views import View, Views
from cntk_kit_parallel.rendezvous import LOOPBACK, Rendezvous

_END, _FAILED, _VIEW = -1, -2, -3
"""Channels of messages about the connection itself: the rank needs nothing any more; the rank failed, and why; which
ranks it takes for lost."""

_TEXT = 4096
"""Characters of a reason."""

_ATTEMPTS = 1 << 40
"""Numbers of views are smaller."""

_FAREWELL = 1.0
"""Seconds that it may take to tell a rank about the end."""


class Mesh:
    """The connections of a rank.

    Args:
        meeting: where the ranks meet.
        patience: seconds within which all must have come.

    Attributes:
        meeting: where the ranks have met.
        addresses: of the other ranks, as seen from here.
        own_address: of this rank, as others see it.
        arrivals: grows with everything that comes.
        views: who is lost, where the others go on then; None where they end.
    """

    def __init__(self, meeting: Rendezvous, patience: float = 300.0) -> None:
        self.rank, self.size, self.meeting = meeting.rank, meeting.size, meeting
        self._peers = connect(meeting, patience) if meeting.size > 1 else {}
        self.addresses = {peer: _host(line.connection.getpeername()) for peer, line in self._peers.items()}
        self.own_address = next((_host(line.connection.getsockname()) for line in self._peers.values()), LOOPBACK)
        self._locks = {peer: threading.Lock() for peer in self._peers}
        self._changed = threading.Condition()
        self._mail: dict[tuple[int, int], deque[tuple[int, Bytes]]] = {}
        self._ended: set[int] = set()
        self._early: list[tuple[int, View]] = []
        self._torn: set[int] = set()
        self._failure = self._own_failure = ""
        self.arrivals = 0
        self.views: Views | None = None
        if self._peers:
            threading.Thread(target=self._read, name="messages", daemon=True).start()

    # -- messages -----------------------------------------------------------------------------------------

    def post(self, to: int, channel: int, tag: int, packed: bytes, be_patient: Callable[[], float]) -> None:
        """Send bytes to a rank, or to oneself.

        Args:
            to: the rank.
            channel, tag: what the message is about.
            packed: the bytes.
            be_patient: called while the rank takes nothing; gives the seconds until the next call, or raises.

        Raises:
            RankGone: it cannot be reached any more, or this rank has failed.
        """
        if self._own_failure and to not in self._torn:
            raise RankGone(self._own_failure)
        if to == self.rank:
            self._deliver(self.rank, channel, tag, packed)
            return
        try:
            with self._locks[to]:
                self._write(to, channel, tag, packed, be_patient)
        except OSError:
            raise self._gone(to) from None

    def _write(self, to: int, channel: int, tag: int, packed: Bytes, be_patient: Callable[[], float]) -> None:
        """Hand over a message, or nothing more ever: half a one cannot be followed by another one."""
        if to in self._torn:
            raise self._gone(to)
        self._torn.add(to)
        line = self._peers[to]
        for piece in line.framed(channel, tag, packed):
            view = memoryview(piece)
            while len(view):
                try:
                    view = view[line.connection.send(view) :]
                except BlockingIOError:
                    await_room(line.connection, be_patient())
        self._torn.remove(to)

    def _gone(self, rank: int) -> RankGone:
        with self._changed:
            if self.views is not None:
                self.views.lose(rank, f"rank {rank} is gone")
            return RankGone(self._failure or f"rank {rank} is gone")

    def take(self, channel: int, source: int, tags: range) -> tuple[int, bytes] | None:
        """Return tag and bytes of the first message of a rank with one of the tags; None if there is none.

        Raises:
            RankGone: a rank has failed; nothing will come any more.
        """
        found = self.take_bounded(channel, source, tags, LARGEST)
        return None if found is None else (found[0], bytes(found[1]))

    def take_bounded(self, channel: int, source: int, tags: range, most: int) -> tuple[int, Bytes] | None:
        """Do the same where something is known about the message, without a copy of it.

        Args:
            channel, tags: what the message is about.
            source: the rank.
            most: bytes that it may have; a rank that sends more, or has begun to, counts as lost.

        Raises:
            RankGone: a rank has failed; nothing will come any more.
        """
        with self._changed:
            waiting = self._mail.get((channel, source), deque())
            for index, (number, packed) in enumerate(waiting):
                if number in tags:
                    del waiting[index]
                    if len(packed) <= most:
                        return number, packed
                    self._drop(source, _too_long(source, len(packed), most))
                    break
            coming = self._peers[source].incoming.announced if source in self._peers else None
            if coming is not None and coming[0] == channel and coming[1] in tags and coming[2] > most:
                self._drop(source, _too_long(source, coming[2], most))
            failure = self._failure if self.views is None else self.views.alarm()
            if failure:
                raise RankGone(failure)
            return None

    def drop(self, rank: int, reason: str) -> RankGone:
        """Take a rank for lost because of what it has sent; return what says so."""
        with self._changed:
            self._drop(rank, reason)
            return RankGone(self._failure or reason)

    def _drop(self, rank: int, reason: str) -> None:
        self._lose(rank, reason)
        self.arrivals += 1
        self._changed.notify_all()
        if rank in self._peers:
            with contextlib.suppress(OSError):  # the thread that reads lets go of it
                self._peers[rank].connection.shutdown(socket.SHUT_RDWR)

    @property
    def failure(self) -> str:
        """Why nothing can come any more: a rank has failed or is gone; empty while all is well."""
        with self._changed:
            return self._failure

    def have_ended(self, ranks: Iterable[int]) -> bool:
        """Whether all of some ranks have said that they need nothing any more: then nothing more comes from them."""
        with self._changed:
            return self._ended.issuperset(ranks)

    def wait(self, seen: int, seconds: float) -> None:
        """Wait until more has come than was ``seen``, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.arrivals != seen, seconds)

    def _deliver(self, source: int, channel: int, tag: int, packed: Bytes) -> None:
        with self._changed:
            if channel == _END:
                self._ended.add(source)
            elif channel == _FAILED:
                self._lose(source, bytes(packed).decode(errors="replace"))
            elif channel == _VIEW:
                self._early.append((source, _read_view(tag, bytes(packed), self.size)))
                self._hear()
            elif channel >= 0:
                self._mail.setdefault((channel, source), deque()).append((tag, packed))
            else:
                raise BadMessage(f"there is no channel {channel}")
            self.arrivals += 1
            self._changed.notify_all()

    def _lose(self, source: int, reason: str) -> None:
        if self.views is not None:
            self.views.lose(source, reason)
        else:
            self._failure = self._failure or reason

    def _read(self) -> None:
        """Read until nothing comes any more. Whatever goes wrong is the loss of ranks, and never goes unnoticed."""
        try:
            with selectors.DefaultSelector() as selector:
                for peer, line in self._peers.items():
                    selector.register(line.connection, selectors.EVENT_READ, peer)
                while selector.get_map():
                    for key, _ in selector.select():
                        if not self._read_some(key.data):
                            selector.unregister(key.fileobj)
                            self._peers[key.data].connection.close()
        except Exception as error:
            for peer in self._peers:
                self.drop(peer, f"nothing can be read from rank {peer} any more: {_words(error)}")

    def _read_some(self, source: int) -> bool:
        """Read what has come from a rank; False if nothing will come any more."""
        try:
            message = self._peers[source].incoming.read()
            if message is not None:
                self._deliver(source, *message)
            return True
        except (OSError, EOFError):
            reason = f"rank {source} is gone"
        except BadMessage as error:
            reason = f"rank {source} has sent what is no message: {error}"
        except Exception as error:  # such as no memory for it
            reason = f"what rank {source} sends cannot be read: {_words(error)}"
        with self._changed:
            if source not in self._ended:
                self._lose(source, reason)
            self.arrivals += 1
            self._changed.notify_all()
        return False

    # -- going on without ranks ---------------------------------------------------------------------------

    def tolerate_losses(self) -> None:
        """From now on the others go on when a rank is lost: see :meth:`regroup`."""
        with self._changed:
            self.views = Views(self.rank, self.size, ended=self._ended)
            self._hear()

    def _hear(self) -> None:
        if self.views is not None:
            for source, view in self._early:
                self.views.hear(source, view)
            self._early.clear()

    def regroup(self, *, done: bool, patience: float, give_up: Callable[[list[int]], None]) -> bool:
        """Wait until all ranks that are left have the same view of who is lost.

        Args:
            done: this rank has done its work.
            patience: seconds after which a rank that does not tell its view counts as lost.
            give_up: called with such ranks.

        Returns:
            Whether nobody was lost and all have done their work; the same on all that are left.

        Raises:
            RankGone: the others go on without this rank.
        """
        told, since = View(-1), time.monotonic()
        while True:
            with self._changed:
                seen, views = self.arrivals, self._own_views()
                if views.is_excluded:
                    raise RankGone(views.alarm())
                view = views.own(done=done)
                if not (awaited := views.awaited(view)) and view == told:
                    return views.agree(view)
            if view != told:
                told, since = view, time.monotonic()
                self._tell_view(view)
            elif awaited and time.monotonic() - since > patience:
                give_up(awaited)
                with self._changed:
                    for rank in awaited:
                        views.lose(rank, f"rank {rank} does not answer")
            else:
                self.wait(seen, 0.1)

    def _own_views(self) -> Views:
        assert self.views is not None, "losses are not tolerated"
        return self.views

    def _tell_view(self, view: View) -> None:
        """Tell it to all ranks, to those that are lost, too: such a rank may only have been slow."""
        unreached = self._tell(_VIEW, " ".join(map(str, view.lost)).encode(), 2 * view.number + view.done)
        with self._changed:
            for rank in unreached:
                self._own_views().lose(rank, f"rank {rank} is gone")

    def forget_others(self, channel: int) -> None:
        """Forget the mail of all channels but one: it is of ranks that have parted."""
        with self._changed:
            self._mail = {key: mail for key, mail in self._mail.items() if key[0] == channel}

    # -- the end ------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Tell all ranks that this one has failed. It sends nothing any more, so nobody can go on with it."""
        text = f"rank {self.rank} has failed: {reason}"[:_TEXT]
        self._own_failure = text
        self._tell(_FAILED, text.encode())

    def end(self) -> None:
        """Tell all ranks that this one needs nothing any more."""
        self._tell(_END, b"")
        for line in self._peers.values():
            with contextlib.suppress(OSError):
                line.connection.shutdown(socket.SHUT_WR)

    def _tell(self, channel: int, text: bytes, tag: int = 0) -> list[int]:
        """Tell all ranks; return those that could not be told because they take nothing, or are gone."""
        unreached = []
        for peer, lock in self._locks.items():
            if not lock.acquire(timeout=_FAREWELL):
                unreached.append(peer)
                continue
            try:
                self._write(peer, channel, tag, text, at_most(_FAREWELL))
            except (OSError, RankGone):
                unreached.append(peer)
            finally:
                lock.release()
        return unreached


def at_most(seconds: float) -> Callable[[], float]:
    """Return what is patient for so many seconds."""
    end = time.monotonic() + seconds

    def be_patient() -> float:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    return be_patient


def _too_long(rank: int, size: int, most: int) -> str:
    return f"rank {rank} has sent a message of {size} bytes where {most} are the most that can come"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _read_view(tag: int, packed: bytes, size: int) -> View:
    """Read which ranks another one takes for lost.

    Raises:
        BadMessage: it says no such thing.
    """
    try:
        lost = frozenset(map(int, packed.split()))
    except ValueError:
        lost = frozenset({-1})
    if tag >= _ATTEMPTS or not lost <= set(range(size)):
        raise BadMessage("it is no view of the ranks")
    return View(tag // 2, lost, bool(tag % 2))


def _host(name: Any) -> str:
    """The host of a socket's name; sockets between processes of one machine have names of other kinds."""
    return str(name[0]) if isinstance(name, tuple) else LOOPBACK
