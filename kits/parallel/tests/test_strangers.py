"""Who is no rank does not come in, and keeps nobody waiting; a rank that sends nonsense is lost, and nothing hangs."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress

import numpy as np
import pytest

from cntk_core.errors import RankGone, TrainingError
from cntk_kit_parallel import mesh_door, mesh_meeting
from cntk_kit_parallel.array_bytes import pack
from cntk_kit_parallel.mesh import Mesh
from cntk_kit_parallel.mesh_bytes import HEADER
from cntk_kit_parallel.mesh_communicator import _LETTERS, MeshCommunicator
from cntk_kit_parallel.mesh_door import Door, is_open, listening
from cntk_kit_parallel.mesh_greeting import Own, receive_guest
from cntk_kit_parallel.mesh_meeting import connect
from cntk_kit_parallel.rendezvous import Rendezvous
from cntk_testing.ports import free_port

SECRET = b"the secret of this run"


@pytest.fixture
def port():
    return free_port()


class Aside(threading.Thread):
    """A call in a thread: ``result()`` gives what it returns, or raises what it raises."""

    def __init__(self, work, *given):
        super().__init__(daemon=True)
        self.work, self.given, self.found, self.error = work, given, None, None
        self.start()

    def run(self):
        try:
            self.found = self.work(*self.given)
        except Exception as error:
            self.error = error

    def result(self):
        self.join(60.0)
        assert not self.is_alive(), "it hangs"
        if self.error is not None:
            raise self.error
        return self.found


def meeting(rank, size, port, secret=SECRET):
    return Rendezvous(rank, size, "127.0.0.1", port, secret)


def reach(port):
    """Return a connection to a rank that listens, or is about to."""
    for _ in range(500):
        with suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=20.0)
        time.sleep(0.02)
    raise AssertionError("nobody listens")


def close(*parties):
    for lines in parties:
        for line in lines.values():
            line.connection.close()


# -- before the ranks have met ----------------------------------------------------------------------------------


def test_ranks_listen_at_no_more_than_the_address_of_the_meeting(port, monkeypatch):
    hosts, create = [], socket.create_server

    def note(address, **more):
        hosts.append(address[0])
        return create(address, **more)

    monkeypatch.setattr(socket, "create_server", note)
    others = [Aside(connect, meeting(rank, 3, port), 30.0) for rank in range(3)]
    close(*(one.result() for one in others))
    assert hosts == ["127.0.0.1"] * 3


def test_the_hello_of_earlier_versions_does_not_come_in(port):
    """It said who knows the secret, which was the digest of nothing where none was set."""
    from hashlib import blake2b

    first = Aside(connect, meeting(0, 2, port, b""), 30.0)
    with reach(port) as stranger:
        stranger.sendall(blake2b(b"", digest_size=16).digest() + (1).to_bytes(8, "little") + port.to_bytes(8, "little"))
        stranger.sendall(bytes(100))
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    second = connect(meeting(1, 2, port, b""), 30.0)
    close(first.result(), second)


def test_who_does_not_know_the_secret_takes_nobodys_place(port):
    first = Aside(connect, meeting(0, 2, port), 30.0)
    with pytest.raises(TrainingError) as caught:
        connect(meeting(1, 2, port, b"another secret"), 30.0)
    assert str(caught.value) == (
        f"rank 1 is turned away by rank 0 at 127.0.0.1:{port}: its secret is another one\n"
        "    RANK is different for all ranks of a run, and WORLD_SIZE and CNTK_SECRET are the same."
    )
    close(first.result() if not first.is_alive() else {}, connect(meeting(1, 2, port), 30.0), first.result())


def test_ranks_that_do_not_belong_together(port):
    first = Aside(connect, meeting(0, 3, port), 30.0)
    with pytest.raises(TrainingError, match=r"is turned away by rank 0 at .*: its WORLD_SIZE is another one\n"):
        connect(meeting(1, 2, port), 30.0)
    twins = [Aside(connect, meeting(1, 3, port), 30.0) for _ in range(2)]
    while all(one.is_alive() for one in twins):  # the one who comes later is turned away, whichever that is
        time.sleep(0.02)
    loser, winner = sorted(twins, key=Aside.is_alive)
    with pytest.raises(TrainingError, match="there is a rank of this number already\n"):
        loser.result()
    third = connect(meeting(2, 3, port), 30.0)
    close(first.result(), winner.result(), third)


def test_a_rank_whose_connection_has_ended_can_come_again(port, monkeypatch):
    """As a container that is started once more."""
    take, taken = mesh_meeting._Party._take, []
    monkeypatch.setattr(
        mesh_meeting._Party, "_take", lambda party, *guest: (take(party, *guest), taken.append(guest[-1].rank))
    )
    first = Aside(connect, meeting(0, 3, port), 30.0)
    with ExitStack() as stack:
        connection = stack.enter_context(reach(port))
        own = Own(1, 3, SECRET, sealed=False, port=1)
        mesh_meeting.greet(connection, mesh_meeting.visit(own, 0), time.monotonic() + 20.0)
    again = Aside(connect, meeting(1, 3, port), 30.0)
    while taken.count(1) < 2:  # the last one to come ends the meeting, and that must not be before rank 1 is back
        time.sleep(0.01)
    other = Aside(connect, meeting(2, 3, port), 30.0)
    close(first.result(), again.result(), other.result())


def test_those_who_say_nothing_keep_nobody_waiting(port):
    """Each took five seconds of the patience, one after the other."""
    first = Aside(connect, meeting(0, 2, port), 20.0)
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(reach(port))
        second = connect(meeting(1, 2, port), 20.0)
        close(first.result(), second)


def test_more_strangers_than_are_waited_for(port, monkeypatch):
    monkeypatch.setattr(mesh_door, "WAITING", 4)
    first = Aside(connect, meeting(0, 2, port), 30.0)
    with ExitStack() as stack:
        strangers = [stack.enter_context(reach(port)) for _ in range(6)]
        for one in strangers[:2]:
            assert one.recv(1) == b"", "who has been there longest goes"
        second = connect(meeting(1, 2, port), 30.0)
        close(first.result(), second)


@pytest.fixture
def door():
    """A door, where it is, and who came in."""
    taken = []
    own = Own(0, 2, SECRET, sealed=False)
    with listening("127.0.0.1", 0) as server:
        found = Door(
            [server], lambda connection: receive_guest(own, lambda known: b"\0"), lambda *one: taken.append(one)
        )
        with closing(found):
            yield found, server.getsockname(), taken


def test_one_deadline_for_a_whole_greeting(door, monkeypatch):
    """Somebody who sends a byte now and then has no longer than who sends nothing."""
    found, place, taken = door
    now = [100.0]
    monkeypatch.setattr(mesh_door.time, "monotonic", lambda: now[0])
    with socket.create_connection(place, timeout=20.0) as slow:
        while not found._guests:
            found.look(0.1)
        for _ in range(9):
            slow.sendall(b"C")
            now[0] += 1.0
            found.look(0.1)
            assert found._guests
        now[0] += 1.0
        slow.sendall(b"C")
        found.look(0.1)
        assert not found._guests
        with suppress(ConnectionResetError):
            assert slow.recv(1) == b""
    assert not taken


def test_too_many_open_files_are_no_end(door):
    """One who waits goes, so that there is room."""
    found, place, _ = door

    class Full:
        def accept(self):
            raise OSError(24, "Too many open files")

    with socket.create_connection(place) as stranger:
        while not found._guests:
            found.look(0.1)
        found._accept(Full())
        assert not found._guests
        assert stranger.recv(1) == b""
    found._accept(Full())


def test_a_guest_who_is_gone_at_once(door):
    found, place, taken = door
    for _ in range(20):
        one = socket.create_connection(place)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()  # with a reset
    for _ in range(60):
        found.look(0.01)
    assert not found._guests
    assert not taken


def test_an_address_where_nobody_can_listen(port):
    with socket.create_server(("127.0.0.1", port)), pytest.raises(TrainingError) as caught:
        connect(meeting(0, 2, port), 1.0)
    assert str(caught.value) == (
        f"this rank cannot listen at 127.0.0.1:{port}: Address already in use\n"
        "    MASTER_PORT names the port of rank 0, which must be free. Where MASTER_ADDR is no address of the machine "
        "of rank 0, CNTK_BIND names one there."
    )
    with pytest.raises(TrainingError, match=r"cannot listen at 192\.0\.2\.1:\d+: Cannot assign requested address\n"):
        connect(Rendezvous(0, 2, "192.0.2.1", port, SECRET), 1.0)


def test_ipv6(port):
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6")
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        others = [Aside(connect, Rendezvous(rank, 3, "::1", port, SECRET), 30.0) for rank in range(3)]
        close(*(one.result() for one in others))
        return
    pytest.skip("there is no IPv6")


def test_another_service_answers(port):
    """The rank says so in the end."""
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(b"220 smtp.example ESMTP".ljust(200))
                        connection.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(RankGone) as caught:
            connect(meeting(1, 2, port), 0.5)
        said = "who answers there is not rank 0 of this run: it is no rank of this version"
        assert caught.value.message == f"rank 1 does not reach 127.0.0.1:{port}: {said}"


def test_nobody_answers(port, monkeypatch):
    """The rank waits no longer than a greeting takes, and tries again."""
    monkeypatch.setattr(mesh_meeting, "VISIT", 0.1)
    said = rf"^rank 1 does not reach 127\.0\.0\.1:{port}: (no answer in time|timed out)\n"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(RankGone, match=said):
        connect(meeting(1, 2, port), 0.2)


def test_a_table_of_ranks_that_is_none(port):
    """Rank 0 says where the others are; that is not believed either."""

    def host(table):
        lines = connect_as_host(port)
        for piece in lines.framed(0, 3, table):
            lines.connection.sendall(piece)
        return lines

    for table, said in (
        (b"1 127.0.0.1 70000", "'1 127.0.0.1 70000' is no place of a rank"),
        (b"9 127.0.0.1 7000", "'9 127.0.0.1 7000' is no place of a rank"),
        (b"\xff", "'ascii' codec can't decode byte 0xff in position 0: ordinal not in range(128)"),
        (b"x" * 500, "500 bytes on channel 0 with tag 3 are not possible"),
    ):
        first = Aside(host, table)
        with pytest.raises(RankGone) as caught:
            connect(meeting(2, 3, port), 30.0)
        assert str(caught.value) == f"rank 0 has not told where the ranks are: {said}"
        first.result().connection.close()


def connect_as_host(port):
    """Greet one rank as rank 0, and return its line."""
    party = mesh_meeting._Party(meeting(0, 3, port), time.monotonic() + 30.0)
    with listening("127.0.0.1", port) as server, closing(Door([server], party._receive, party._take)) as door:
        while not party.peers:
            door.look(0.1)
    (line,) = party.peers.values()
    line.connection.setblocking(True)
    return line


def test_a_machine_that_is_gone_without_a_word_is_noticed(port):
    first = Aside(connect, meeting(0, 2, port), 30.0)
    second = connect(meeting(1, 2, port), 30.0)
    for lines in (first.result(), second):
        for line in lines.values():
            assert line.connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_KEEPIDLE"):
                names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                idle, interval, count = (line.connection.getsockopt(socket.IPPROTO_TCP, name) for name in names)
                assert idle + interval * count == 150
    close(first.result(), second)


def test_whether_a_connection_is_open():
    one, other = socket.socketpair()
    with closing(one), closing(other):
        assert is_open(one)
        other.sendall(b"x")
        assert is_open(one)
        assert one.recv(1) == b"x"
        other.close()
        assert not is_open(one)
        one.close()
        assert not is_open(one)


# -- a rank that sends nonsense ---------------------------------------------------------------------------------


@pytest.fixture
def hostile(port):
    """Rank 0 of two, and the connection of rank 1, which does as it likes."""
    first = Aside(lambda: MeshCommunicator(Mesh(meeting(0, 2, port, b""), 30.0)))
    lines = connect(meeting(1, 2, port, b""), 30.0)
    communicator = first.result()
    communicator.watch.deadline = 30.0
    connection = lines[0].connection
    connection.setblocking(True)
    with closing(connection), closing(communicator):
        yield communicator, connection


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (HEADER.pack(0, 1, 1 << 62), f"{1 << 62} bytes on channel 0 with tag 1 are not possible"),
        (HEADER.pack(0, 1, -1), "-1 bytes on channel 0 with tag 1 are not possible"),
        (HEADER.pack(-9, 1, 0), "there is no channel -9"),
        (HEADER.pack(-3, 2, 1) + b"x", "it is no view of the ranks"),
        (HEADER.pack(-3, 2, 1) + b"7", "it is no view of the ranks"),
        (HEADER.pack(-3, 1 << 60, 1) + b"1", "it is no view of the ranks"),
    ],
)
def test_no_message(hostile, sent, said):
    communicator, connection = hostile
    connection.sendall(sent)
    with pytest.raises(RankGone) as caught:
        communicator.barrier()
    assert str(caught.value) == f"rank 1 has sent what is no message: {said}"


def test_a_message_that_is_longer_than_the_operation_expects(hostile):
    """It is not waited for: nobody knows whether it ever comes."""
    communicator, connection = hostile
    connection.sendall(HEADER.pack(0, 1, 20 << 30) + b"x" * 1000)
    with pytest.raises(RankGone) as caught:
        communicator.allreduce(np.zeros(10))
    assert str(caught.value) == (
        f"rank 1 has sent a message of {20 << 30} bytes where {80 + 16 + 8 * 32} are the most that can come"
    )
    with suppress(ConnectionResetError):
        while connection.recv(1000):
            pass  # it is let go of: otherwise this would not end


def test_a_message_that_is_too_long_and_here_already(hostile):
    communicator, connection = hostile
    packed = pack(np.zeros(1000))
    connection.sendall(HEADER.pack(0, 1, len(packed)) + packed)
    while not communicator._mesh.arrivals:
        communicator._mesh.wait(0, 30.0)
    with pytest.raises(RankGone) as caught:
        communicator.broadcast(np.zeros(0), root=1)
    assert str(caught.value) == (
        f"rank 1 has sent a message of {len(packed)} bytes where {16 + 8 * 32} are the most that can come"
    )


def packed_as(kind, dimensions, *rest):
    return kind.ljust(8, b"\0") + dimensions.to_bytes(8, "little", signed=True) + b"".join(rest)


def length(number):
    return number.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (b"", "0 bytes are no array"),
        (b"\xfe" * 40, "40 bytes are no array of a type that is known"),
        (packed_as(b"|O", 1, length(1), bytes(8)), "32 bytes are no array of a type that is known"),
        (packed_as(b"<f4", 1 << 40), "16 bytes are no array of a type that is known"),
        (packed_as(b"<f4", -1), "16 bytes are no array of a type that is known"),
        (packed_as(b"<f4", 2, length(1)), "24 bytes are no array of a type that is known"),
        (packed_as(b"<f9", 0, bytes(9)), f"there is no type {b'<f9'.ljust(8, bytes(1))!r}"),
        (packed_as(b"<f4", 1, length(-1)), "an array of float32 of the shape [-1] has not 0 bytes"),
        (packed_as(b"<f4", 1, length(3), bytes(8)), "an array of float32 of the shape [3] has not 8 bytes"),
        (
            packed_as(b"<f4", 2, length(1 << 62), length(4), bytes(8)),
            f"an array of float32 of the shape [{1 << 62}, 4] has not 8 bytes",
        ),
    ],
)
def test_no_array(hostile, packed, said):
    communicator, connection = hostile
    connection.sendall(HEADER.pack(0, _LETTERS + 3, len(packed)) + packed)
    with pytest.raises(RankGone) as caught:
        communicator.receive(1, 3)
    assert str(caught.value) == f"rank 1 has sent what is no array: {said}"


@pytest.mark.parametrize(
    ("array", "described"),
    [
        (np.zeros(3, np.float32), "float32 of the shape (3,)"),
        (np.zeros((3, 1)), "float64 of the shape (3, 1)"),
        (np.zeros(()), "float64 of the shape ()"),
    ],
)
def test_an_array_that_does_not_belong_there(hostile, array, described):
    """Otherwise NumPy would stretch it, or turn it into numbers of another kind."""
    communicator, connection = hostile
    packed = pack(array)
    connection.sendall(HEADER.pack(0, 1, len(packed)) + packed)
    with pytest.raises(RankGone) as caught:
        communicator.allreduce(np.zeros(3))
    assert str(caught.value) == (
        f"rank 1 has sent an array of {described} where one of float64 of the shape (3,) belongs"
    )


def test_whatever_goes_wrong_in_reading_is_the_loss_of_the_rank(hostile, monkeypatch):
    """There is no memory for what comes."""
    communicator, connection = hostile

    def no_memory():
        raise MemoryError

    monkeypatch.setattr(communicator._mesh._peers[1].incoming, "read", no_memory)
    connection.sendall(b"x")
    with pytest.raises(RankGone, match=r"^what rank 1 sends cannot be read: MemoryError$"):
        communicator.barrier()


def test_the_end_of_the_thread_that_reads_is_the_loss_of_all(port, monkeypatch):
    def broken(selector, *given):
        raise ValueError("this should not be")

    first = Aside(connect, meeting(0, 2, port), 30.0)
    lines = connect(meeting(1, 2, port), 30.0)
    monkeypatch.setattr(selectors.DefaultSelector, "select", broken)
    from cntk_kit_parallel import mesh as module

    monkeypatch.setattr(module, "connect", lambda *given: first.result())
    communicator = MeshCommunicator(Mesh(meeting(0, 2, port)))
    communicator.watch.deadline = 30.0
    with pytest.raises(RankGone, match=r"^nothing can be read from rank 1 any more: ValueError: this should not be$"):
        communicator.barrier()
    close(lines, first.result())
