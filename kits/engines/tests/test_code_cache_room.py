"""How much compiled code is kept, what goes first, and what is said of a folder that is not as it should be."""

from __future__ import annotations

import os
import time

import pytest

from cntk_kit_engines import code_cache
from cntk_kit_engines.code_cache import CodeCache

CODE = b"x" * 1000


def size_of(identity: str, code: bytes = CODE) -> int:
    return len(code_cache._packed(identity, code))


@pytest.fixture
def cache(tmp_path):
    return CodeCache("ours", tmp_path / "kept", title="functions")


def limited(cache, limit):
    return CodeCache("ours", cache.folder, title="functions", limit=limit)


def aged(cache, *identities):
    """Write entries, each a minute older than the next."""
    for age, identity in enumerate(reversed(identities)):
        cache.write(identity, CODE)
        when = time.time() - 60 * (age + 1)
        os.utime(cache.folder / code_cache._name(identity), (when, when))


def kept(cache, identities="abcdefgh"):
    return "".join(one for one in identities if (cache.folder / code_cache._name(one)).exists())


@pytest.mark.parametrize(("spare", "there"), [(-1, ""), (0, "a"), (1, "a")])
def test_an_entry_may_be_as_large_as_all_of_the_room(cache, spare, there):
    made = limited(cache, size_of("a") + spare)
    made.write("a", CODE)
    assert kept(made) == there


@pytest.mark.parametrize(("room", "left"), [(4, "abcd"), (3, "cd"), (8, "abcd")])
def test_the_oldest_go_until_a_quarter_is_free(cache, room, left):
    aged(cache, "a", "b", "c")
    made = limited(cache, room * size_of("a"))
    made.write("d", CODE)
    assert kept(made) == left
    assert made.state().size == len(left) * size_of("a")


def test_what_others_have_removed_meanwhile_is_no_mistake(cache, monkeypatch, caplog):
    aged(cache, "a", "b")
    real = code_cache._entries

    def entries(folder):
        found = list(real(folder))
        gone = folder / code_cache._name("gone")
        return [(gone, found[0][1]), *found] if found else found

    monkeypatch.setattr(code_cache, "_entries", entries)
    made = limited(cache, 2 * size_of("a"))
    made.write("c", CODE)
    assert kept(made)[-1] == "c"
    assert not caplog.messages
    made.clear()
    assert kept(made) == ""


@pytest.mark.parametrize(("age", "noted"), [(0.5, False), (2.0, True)])
def test_an_entry_that_is_used_again_after_a_while_is_young_again(cache, age, noted):
    cache.write("a", CODE)
    path = cache.folder / code_cache._name("a")
    when = time.time() - age * code_cache._USED_AGAIN
    os.utime(path, (when, when))
    assert cache.read("a") == CODE
    assert (path.stat().st_mtime > when + 1) is noted


def test_a_folder_that_cannot_be_written_is_told(cache, monkeypatch):
    cache.write("a", CODE)
    assert cache.state().problem == ""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert cache.state().problem == "it cannot be written"
    monkeypatch.setattr(code_cache, "reason_to_distrust", lambda *given: ("others may write it", "mend it"))
    assert (cache.state().problem, cache.state().mend) == ("others may write it", "mend it")


@pytest.mark.parametrize(
    ("error", "said"), [(OSError(13, "Permission denied"), "Permission denied"), (OSError(), "cannot be read")]
)
def test_a_folder_that_cannot_be_read_is_told(cache, monkeypatch, error, said):
    cache.write("a", CODE)

    def entries(folder):
        raise error

    monkeypatch.setattr(code_cache, "_entries", entries)
    state = cache.state()
    assert (state.problem, state.entries, state.limit) == (said, 0, code_cache.LIMIT)
