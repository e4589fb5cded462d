"""The greeting of two ranks: who knows the secret comes in, and nothing that was overheard is of use."""

from __future__ import annotations

import attrs
import pytest

from cntk_kit_parallel.mesh_greeting import (
    GREETING_BYTES,
    OTHER_SECRET,
    OTHER_SIZE,
    TAKEN,
    WELCOME,
    Known,
    Own,
    Stranger,
    TurnedAway,
    receive_guest,
    visit,
)

HOST = Own(0, 3, b"the secret", sealed=True)
GUEST = Own(2, 3, b"the secret", sealed=True, port=4711)


def everybody(known):
    return WELCOME


class Talk:
    """A greeting whose bytes go by hand.

    Attributes:
        said: by the guest and the host, one after the other.
    """

    def __init__(self, guest, host, change=lambda number, data: data):
        self.said, self.change, self.found, self.errors = [], change, {}, {}
        self.sides = {"guest": guest, "host": host}
        self.waiting = {"guest": b"", "host": b""}
        self.wanted = {}
        for side in self.sides:
            self.step(side, None)
        while self.sides and self.go_on():
            pass

    def step(self, side, data):
        try:
            answer, self.wanted[side] = self.sides[side].send(data)
        except StopIteration as done:
            self.found[side] = done.value
            del self.sides[side]
            return
        except (Stranger, TurnedAway) as error:
            self.errors[side] = error
            del self.sides[side]
            return
        if answer:
            answer = self.change(len(self.said), answer)
            self.said.append(answer)
            self.waiting["host" if side == "guest" else "guest"] += answer

    def go_on(self):
        for side in list(self.sides):
            wanted = self.wanted[side]
            if len(self.waiting[side]) >= wanted:
                data, self.waiting[side] = self.waiting[side][:wanted], self.waiting[side][wanted:]
                self.step(side, data)
                return True
        return False


def test_both_know_each_other_then():
    talk = Talk(visit(GUEST, 0), receive_guest(HOST, everybody))
    guest, host = talk.found["guest"], talk.found["host"]
    assert (guest.rank, guest.size) == (0, 3)
    assert (host.rank, host.size, host.port) == (2, 3, 4711)
    assert guest.keys == host.keys[::-1]
    assert guest.keys[0] != guest.keys[1], "what one side has sent cannot be sent back to it"
    assert sum(map(len, talk.said)) == GREETING_BYTES
    assert all(b"the secret" not in one for one in talk.said)


@pytest.mark.parametrize(("guest", "host"), [(True, False), (False, True), (False, False)])
def test_messages_are_sealed_if_one_side_wants_it(guest, host):
    talk = Talk(visit(attrs.evolve(GUEST, sealed=guest), 0), receive_guest(attrs.evolve(HOST, sealed=host), everybody))
    for known in talk.found.values():
        assert (known.keys is not None) == (guest or host)


def test_no_greeting_is_like_another_one():
    talks = [Talk(visit(GUEST, 0), receive_guest(HOST, everybody)) for _ in range(2)]
    keys = {key for talk in talks for key in talk.found["host"].keys}
    assert len(keys) == 4


@pytest.mark.parametrize("secret", [b"", b"another one", b"the secret "])
def test_who_does_not_know_the_secret_is_turned_away(secret):
    talk = Talk(visit(attrs.evolve(GUEST, secret=secret), 0), receive_guest(HOST, everybody))
    assert not talk.found
    assert talk.errors["guest"].args == talk.errors["host"].args == (OTHER_SECRET,)


def test_a_host_that_does_not_know_the_secret_is_no_host():
    """It welcomes everybody, and cannot prove anything."""

    def claim(number, data):
        return WELCOME + bytes(32) if number == 3 else data

    talk = Talk(visit(GUEST, 0), receive_guest(attrs.evolve(HOST, secret=b"none"), everybody), claim)
    assert str(talk.errors["guest"]) == "it does not know the secret"


@pytest.mark.parametrize("verdict", [TAKEN, OTHER_SIZE, b"\x99"])
def test_a_rank_that_cannot_come(verdict):
    judged = []

    def judge(known):
        judged.append(known)
        return verdict

    talk = Talk(visit(GUEST, 0), receive_guest(HOST, judge))
    assert judged == [Known(2, 4711, 3, None)]
    assert talk.errors["guest"].args == talk.errors["host"].args == (verdict,)


def test_only_who_knows_the_secret_is_judged():
    def judge(known):
        raise AssertionError("nobody asked for this")

    talk = Talk(visit(attrs.evolve(GUEST, secret=b"x"), 0), receive_guest(HOST, judge))
    assert talk.errors["host"].args == (OTHER_SECRET,)


# -- attacks ----------------------------------------------------------------------------------------------------


def test_a_greeting_that_was_overheard_is_of_no_use():
    said = Talk(visit(GUEST, 0), receive_guest(HOST, everybody)).said
    host = receive_guest(HOST, everybody)
    next(host)
    host.send(said[0])
    assert host.send(said[2]) == (OTHER_SECRET, 0)
    guest = visit(GUEST, 0)
    next(guest)
    guest.send(said[1])
    guest.send(WELCOME)
    with pytest.raises(Stranger):
        guest.send(said[3][1:])


def test_nothing_can_be_sent_back_to_who_has_sent_it():
    """A host that answers with the guest's own bytes, and a guest that answers with the host's."""
    guest = visit(GUEST, 0)
    hello, _ = next(guest)
    with pytest.raises(Stranger, match="it is no rank of this version"):
        guest.send(hello)
    guest = visit(GUEST, 0)
    hello, _ = next(guest)
    proof, _ = guest.send(_as_rank(hello, 0))
    guest.send(WELCOME)
    with pytest.raises(Stranger, match="it does not know the secret"):
        guest.send(proof)


def _as_rank(hello, rank):
    return hello[:8] + rank.to_bytes(4, "little") + hello[12:]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("place", [0, 9, 13, 17, 20, 25, -1])
def test_not_a_bit_of_a_greeting_can_be_changed(number, place):
    """Nobody in between can make a rank another one, or turn off the seals. The last one is the guest's to notice."""

    def change(count, data):
        if count != number:
            return data
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    talk = Talk(visit(GUEST, 0), receive_guest(HOST, everybody), change)
    assert "guest" in talk.errors or "host" in talk.errors
    assert "guest" not in talk.found


def test_another_rank_answers():
    """A rank that is led to another host than it wants does not take it for that."""
    talk = Talk(visit(GUEST, 0), receive_guest(attrs.evolve(HOST, rank=1), everybody))
    assert str(talk.errors["guest"]) == "another rank answers"


@pytest.mark.parametrize("hello", [b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".ljust(51), bytes(51), b"\xff" * 51])
def test_who_says_something_else_is_a_stranger(hello):
    host = receive_guest(HOST, everybody)
    assert next(host) == (b"", len(hello))
    with pytest.raises(Stranger, match="it is no rank of this version"):
        host.send(hello)
