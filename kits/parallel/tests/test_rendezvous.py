"""What the environment says about the meeting of ranks: numbers, the secret, and where a rank listens."""

from __future__ import annotations

import os
import socket

import pytest

from cntk_core.errors import UsageError
from cntk_kit_parallel import rendezvous as module
from cntk_kit_parallel.rendezvous import Rendezvous, check_secret, is_loopback, listening_places, resolve

GIVEN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "30000"}
NUMBERS = "    What starts the ranks sets it; a single process needs none of RANK, WORLD_SIZE and MASTER_PORT."
GIVE = (
    "    Set CNTK_SECRET to the same text for all ranks (openssl rand -hex 16 makes one), or CNTK_SECRET_FILE to a "
    "file with it that only you can read."
)


@pytest.mark.parametrize("text", ["abc", "99999", "-1", "", "0", "65536", "1e3", " 80", "٣", "9" * 5000])
def test_ports_that_make_no_sense(text):
    with pytest.raises(UsageError) as caught:
        Rendezvous.of({**GIVEN, "MASTER_PORT": text})
    said = f"MASTER_PORT={text!r} in the environment makes no sense: it is a number from 1 to 65535"
    assert str(caught.value) == f"{said}\n{NUMBERS}"


def test_the_last_port():
    last = {**GIVEN, "MASTER_PORT": "65535"}
    assert Rendezvous.of(last).port == 65535
    with pytest.raises(UsageError, match=r"^MASTER_PORT='65535' .* a number from 1 to 65534\n"):
        Rendezvous.of({**last, "TORCHELASTIC_USE_AGENT_STORE": "True"})


@pytest.mark.parametrize(
    ("name", "text", "limits"),
    [
        ("RANK", "4", "0 to 3"),
        ("RANK", "-1", "0 to 3"),
        ("RANK", "first", "0 to 3"),
        ("WORLD_SIZE", "0", "1 to 4096"),
        ("WORLD_SIZE", "many", "1 to 4096"),
        ("LOCAL_WORLD_SIZE", "x", "0 to 4096"),
    ],
)
def test_ranks_that_make_no_sense(name, text, limits):
    with pytest.raises(UsageError) as caught:
        Rendezvous.of({**GIVEN, name: text})
    said = f"{name}={text!r} in the environment makes no sense: it is a number from {limits}"
    assert str(caught.value) == f"{said}\n{NUMBERS}"


def test_ranks_of_one_machine_meet_inside_of_it():
    """As ``torchrun --standalone`` starts them, with the name of the machine as the address."""
    there = {**GIVEN, "MASTER_ADDR": "node1"}
    assert Rendezvous.of(there).address == "node1"
    assert Rendezvous.of({**there, "LOCAL_WORLD_SIZE": "2"}).address == "node1"
    assert Rendezvous.of({**there, "LOCAL_WORLD_SIZE": "4"}).address == "127.0.0.1"
    assert Rendezvous.of({**GIVEN, "MASTER_ADDR": ""}).address == "127.0.0.1"


# -- the secret -------------------------------------------------------------------------------------------------


def test_what_everybody_knows_is_no_secret():
    """Torchrun's id is "none" unless somebody gives one, and then it stands on the command line."""
    assert Rendezvous.of({**GIVEN, "TORCHELASTIC_RUN_ID": "none"}).secret == b""
    found = Rendezvous.of({**GIVEN, "TORCHELASTIC_RUN_ID": "none", "CNTK_SECRET": "mine, and long"})
    assert found.secret == b"mine, and long"
    assert "mine" not in repr(found), "it does not get into messages"


def test_a_secret_in_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("  of the file\n")
    file.chmod(0o600)
    given = {**GIVEN, "CNTK_SECRET_FILE": str(file)}
    assert Rendezvous.of(given).secret == b"of the file"
    assert Rendezvous.of({**given, "CNTK_SECRET": "of the environment"}).secret == b"of the environment"


def refused(path):
    with pytest.raises(UsageError) as caught:
        Rendezvous.of({**GIVEN, "CNTK_SECRET_FILE": str(path)})
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_can_read(tmp_path, mode):
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(mode)
    said = f"CNTK_SECRET_FILE: {file} can be read by others, or is another user's"
    assert refused(file) == f"{said}\n    chmod 600 {file}"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="has no users")
def test_a_secret_of_another_user(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, 4711, 4711)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert refused(file).startswith(f"CNTK_SECRET_FILE: {file} can be read by others, or is another user's\n")


def test_files_without_a_secret(tmp_path):
    empty, long = tmp_path / "empty", tmp_path / "long"
    empty.write_text(" \n")
    long.write_text("x" * 5000)
    for file in (empty, long):
        file.chmod(0o600)
        said = f"CNTK_SECRET_FILE: {file} has no secret: it is empty, or longer than 4096 bytes"
        assert refused(file) == f"{said}\n{GIVE}"
    none = tmp_path / "none"
    assert refused(none) == f"CNTK_SECRET_FILE: {none} cannot be read: No such file or directory\n{GIVE}"
    assert refused("/dev/null") == "CNTK_SECRET_FILE: /dev/null is no file"


def meeting(address, secret=b"", listen=""):
    return Rendezvous(0, 2, address, 30000, secret, listen)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
def test_inside_of_a_machine_no_secret_is_needed(address):
    check_secret(meeting(address))
    check_secret(meeting(address, listen="127.0.0.1"))


@pytest.mark.parametrize(
    ("address", "listen", "reached"),
    [("192.0.2.7", "", "192.0.2.7"), ("2001:db8::1", "", "2001:db8::1"), ("127.0.0.1", "0.0.0.0", "0.0.0.0")],
)
def test_over_a_network_a_secret_is_needed(address, listen, reached):
    with pytest.raises(UsageError) as caught:
        check_secret(meeting(address, listen=listen))
    assert str(caught.value) == f"ranks that meet at {reached}, where others can reach them, need a secret\n{GIVE}"
    with pytest.raises(UsageError, match="need a secret of 16 characters at least\n"):
        check_secret(meeting(address, b"fifteen letters", listen))
    check_secret(meeting(address, b"sixteen letters.", listen))


# -- addresses --------------------------------------------------------------------------------------------------


def names(monkeypatch, **known):
    """Let these names be known, and no others."""

    def find(name, port, **more):
        if name not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in known[name]]

    monkeypatch.setattr(module.socket, "getaddrinfo", find)


def test_addresses_of_this_machine():
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost"), "a name is not looked up"


def test_rank_0_listens_where_the_others_go_and_nowhere_else(monkeypatch):
    names(monkeypatch, node1=["10.0.0.1"], localhost=["127.0.0.1"])
    assert listening_places(meeting("node1", b"s"), 0.0) == ["10.0.0.1"]
    assert listening_places(meeting("localhost", b"s"), 0.0) == ["127.0.0.1"]


def test_what_is_asked_for_is_listened_at(monkeypatch):
    names(monkeypatch, node1=["10.0.0.1"], fast=["10.9.0.1"], **{"0.0.0.0": ["0.0.0.0"]})
    assert listening_places(meeting("node1", b"s", "fast"), 0.0) == ["10.9.0.1"]
    assert listening_places(meeting("node1", b"s", "0.0.0.0"), 0.0) == ["0.0.0.0"]


def test_a_machine_that_calls_itself_a_loopback_address(monkeypatch):
    """Ranks here go to that one, those of other machines to the other one; without a secret there are no others."""
    names(monkeypatch, node1=["127.0.1.1"])
    monkeypatch.setattr(module, "_outward", lambda: ["10.0.0.1"])
    assert listening_places(meeting("node1", b"s"), 0.0) == ["127.0.1.1", "10.0.0.1"]
    assert listening_places(meeting("node1"), 0.0) == ["127.0.1.1"]


def test_the_address_by_which_others_are_reached(monkeypatch):
    class Probe(socket.socket):
        def connect(self, place):
            assert place == ("192.0.2.1", 9)
            raise OSError(101, "Network is unreachable")

    for found in module._outward():
        assert not is_loopback(found)
    monkeypatch.setattr(module.socket, "socket", Probe)
    assert module._outward() == []


def test_names_that_nobody_knows(monkeypatch):
    names(monkeypatch)
    with pytest.raises(UsageError) as caught:
        resolve("nod1")
    said = "'nod1', which MASTER_ADDR or CNTK_BIND names, is not known here: Name or service not known"
    assert str(caught.value) == said
    with pytest.raises(UsageError, match="is not known here"):
        resolve("x" * 300)


def test_a_name_that_becomes_known(monkeypatch):
    """That of a container that has only begun."""
    monkeypatch.setattr(module.time, "sleep", lambda seconds: names(monkeypatch, node1=["10.0.0.1"]))
    names(monkeypatch)
    assert resolve("node1", module.time.monotonic() + 60.0) == "10.0.0.1"


def test_of_several_addresses_one_of_ipv4_is_taken(monkeypatch):
    found = [
        (family, socket.SOCK_STREAM, 6, "", (one, 0)) for family, one in ((10, "::1"), (socket.AF_INET, "10.1.1.1"))
    ]
    monkeypatch.setattr(module.socket, "getaddrinfo", lambda *given, **more: found)
    assert resolve("node1") == "10.1.1.1"
