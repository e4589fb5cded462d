"""Messages over a connection, sealed and not: what comes is what was sent, or is noticed; no length is believed."""

from __future__ import annotations

import resource
import socket
from contextlib import closing

import numpy as np
import pytest

from cntk_kit_parallel.mesh_bytes import _JOINED, _PIECE, HEADER, LARGEST, OF_CONNECTION, BadMessage, Line
from cntk_kit_parallel.mesh_seal import SEAL

KEYS = b"a" * 32, b"b" * 32


@pytest.fixture(params=[False, True], ids=["open", "sealed"])
def lines(request):
    """Both ends of a connection."""
    yield from _lines(KEYS if request.param else None)


@pytest.fixture
def sealed():
    yield from _lines(KEYS)


def _lines(keys):
    one, other = socket.socketpair()
    with closing(one), closing(other):
        other.setblocking(False)
        yield Line.over(one, keys), Line.over(other, keys and keys[::-1])


def sent(line, channel, tag, body):
    return b"".join(line.framed(channel, tag, body))


def pass_on(data, ends, step=1 << 16):
    """Send bytes, so many at a time; return the messages that are read."""
    found = []
    for begin in range(0, len(data), step):
        ends[0].connection.sendall(data[begin : begin + step])
        while (message := ends[1].incoming.read()) is not None:
            found.append((*message[:2], bytes(message[2])))
    return found


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100, _JOINED, _JOINED + 1, _PIECE, 2 * _PIECE + 5])
def test_messages_come_as_they_were_sent(lines, size):
    body = np.random.default_rng(size).bytes(size)
    messages = [(0, 7, body), (1 << 50, 0, b"x"), (-1, 3, b""), (5, 1 << 40, body[::-1])]
    data = b"".join(sent(lines[0], *message) for message in messages)
    assert pass_on(data, lines) == messages


@pytest.mark.parametrize("step", [1, 3, 40, 41])
def test_messages_come_piece_by_piece(lines, step):
    messages = [(0, 7, b"y" * 50), (0, 8, b""), (0, 9, b"z")]
    data = b"".join(sent(lines[0], *message) for message in messages)
    assert pass_on(data, lines, step) == messages


def test_what_is_coming_is_known_before_it_is_here(lines):
    data = sent(lines[0], 4, 5, b"y" * 1000)
    pass_on(data[:500], lines)
    assert lines[1].incoming.announced == (4, 5, 1000)
    pass_on(data[500:], lines)
    assert lines[1].incoming.announced is None


def test_the_end_of_a_connection(lines):
    pass_on(sent(lines[0], 4, 5, b"y" * 100)[:-1], lines)
    lines[0].connection.close()
    with pytest.raises(EOFError):
        lines[1].incoming.read()


@pytest.mark.parametrize(
    ("channel", "tag", "size"),
    [(0, 0, -1), (0, 0, LARGEST + 1), (0, 0, 1 << 62), (0, -1, 0), (-2, 0, OF_CONNECTION + 1), (-(1 << 63), -5, -7)],
)
def test_headers_that_are_not_possible(channel, tag, size):
    for ends in _lines(None):
        with pytest.raises(BadMessage) as caught:
            pass_on(HEADER.pack(channel, tag, size), ends)
        assert str(caught.value) == f"{size} bytes on channel {channel} with tag {tag} are not possible"


def test_memory_is_taken_when_bytes_come_and_not_before():
    """A header announces 20 GiB, and then there is little."""
    for ends in _lines(None):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pass_on(HEADER.pack(0, 0, 20 << 30) + b"x" * 100_000, ends)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000
        assert ends[1].incoming.announced == (0, 0, 20 << 30)


def test_messages_that_are_longer_than_expected():
    for ends in _lines(None):
        ends[1].incoming.most = 100
        assert pass_on(sent(ends[0], 0, 1, b"x" * 100), ends) == [(0, 1, b"x" * 100)]
        with pytest.raises(BadMessage, match=r"^101 bytes on channel 0 with tag 1 are not possible$"):
            pass_on(sent(ends[0], 0, 1, b"x" * 101), ends)


# -- what somebody in between does ------------------------------------------------------------------------------

BAD = "^its seal is not that of the rank$"


@pytest.mark.parametrize("place", [0, 8, 16, 23, 24, 39, 40, 139, 140, 155])
def test_not_a_bit_of_a_message_can_be_changed(sealed, place):
    data = bytearray(sent(sealed[0], 0, 1, b"x" * 100))
    assert len(data) == HEADER.size + SEAL + 100 + SEAL
    data[place] ^= 1
    with pytest.raises(BadMessage, match=BAD):
        pass_on(bytes(data), sealed)


def test_a_length_is_not_believed_before_its_seal(sealed):
    """Nothing is made ready for what somebody else announces."""
    data = HEADER.pack(0, 0, 20 << 30) + bytes(SEAL)
    with pytest.raises(BadMessage, match=BAD):
        pass_on(data, sealed)
    assert sealed[1].incoming.announced is None


def test_messages_cannot_be_doubled_left_out_or_exchanged():
    def trial(choose):
        for ends in _lines(KEYS):
            messages = [sent(ends[0], 0, 1, body) for body in (b"one", b"two", b"six")]
            with pytest.raises(BadMessage, match=BAD):
                pass_on(b"".join(choose(*messages)), ends)

    trial(lambda one, two, six: [one, one])
    trial(lambda one, two, six: [two])
    trial(lambda one, two, six: [one, six])
    trial(lambda one, two, six: [one[:40] + two[40:]])
    trial(lambda one, two, six: [one, two[:40] + one[40:]])


def test_a_message_cannot_be_sent_back(sealed):
    """Each direction has a key of its own."""
    data = sent(sealed[1], 0, 1, b"mine")
    with pytest.raises(BadMessage, match=BAD):
        pass_on(data, sealed)


def test_a_message_of_another_connection_is_none(sealed):
    for other in _lines((b"c" * 32, b"d" * 32)):
        with pytest.raises(BadMessage, match=BAD):
            pass_on(sent(other[0], 0, 1, b"hello"), sealed)


@pytest.mark.parametrize("size", [_PIECE + 1, 2 * _PIECE, 2 * _PIECE + 1])
def test_the_last_byte_of_a_long_message_is_sent_too(sealed, size):
    one, _ = sealed
    body = np.arange(size, dtype=np.uint8).data
    assert len(sent(one, 1, 2, body)) == HEADER.size + 2 * SEAL + size
