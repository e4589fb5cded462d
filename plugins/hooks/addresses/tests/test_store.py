"""When a copy is brought, kept, sent and thrown away; what is said when that cannot be done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from cntk_hook_addresses import remote, room
from cntk_hook_addresses.mirror import Mirror
from cntk_hook_addresses.store import Store
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import DataError, Location, MissingPluginError, deliver, local_path, with_addresses


@pytest.fixture
def memory() -> Any:
    return fsspec.filesystem("memory")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were brought here."""
    found: list[str] = []
    fetch = remote.fetch

    def note(one: remote.Found, into: Path) -> None:
        found.append(one.address)
        fetch(one, into)

    monkeypatch.setattr(remote, "fetch", note)
    return found


def test_a_copy_is_fetched_once_and_again_when_it_changed(
    memory: Any, fetched: list[str], forget: Callable[[], None]
) -> None:
    memory.pipe("/data/a.txt", b"one")
    path = Path(local_path("memory://data/a.txt"))
    assert path.read_bytes() == b"one"
    forget()
    assert local_path("memory://data/a.txt") == str(path)
    assert fetched == ["memory://data/a.txt"]
    memory.pipe("/data/a.txt", b"two")
    assert Path(local_path("memory://data/a.txt")).read_bytes() == b"one"  # in the same run it stays as it was
    assert Path(local_path("memory://data/a.txt", again=True)).read_bytes() == b"two"


def test_what_is_removed_elsewhere_is_removed_here(memory: Any, forget: Callable[[], None]) -> None:
    memory.pipe("/data/a.txt", b"one")
    path = Path(local_path("memory://data/a.txt"))
    memory.rm("/data/a.txt")
    forget()
    local_path("memory://data/a.txt")
    assert not path.exists()


def test_what_was_written_is_sent_once(
    memory: Any, monkeypatch: pytest.MonkeyPatch, forget: Callable[[], None]
) -> None:
    path = Path(local_path("memory://out/a.txt"))
    path.write_bytes(b"mine")
    deliver()
    assert memory.cat("/out/a.txt") == b"mine"
    monkeypatch.setattr(remote, "send", lambda *given: pytest.fail("it is sent again"))
    deliver()
    forget()
    local_path("memory://out/a.txt")
    deliver()


def test_what_was_not_sent_yet_stays(memory: Any, forget: Callable[[], None]) -> None:
    path = Path(local_path("memory://out/a.txt"))
    path.write_bytes(b"mine")
    forget()
    assert Path(local_path("memory://out/a.txt")).read_bytes() == b"mine"
    deliver()
    assert memory.cat("/out/a.txt") == b"mine"


def test_a_newer_original_wins(memory: Any, forget: Callable[[], None]) -> None:
    memory.pipe("/out/a.txt", b"old")
    path = Path(local_path("memory://out/a.txt"))
    path.write_bytes(b"mine, unsent")
    memory.pipe("/out/a.txt", b"somebody else's")
    forget()
    assert Path(local_path("memory://out/a.txt")).read_bytes() == b"somebody else's"


def test_files_whose_names_begin_so_are_sent_where_nothing_was(memory: Any) -> None:
    prefix = Path(local_path("memory://out/run1"))
    prefix.with_name("run1.z").write_bytes(b"1")
    prefix.with_name("run1.ce").write_bytes(b"2")
    prefix.with_name("other").write_bytes(b"3")
    deliver()
    assert sorted(memory.find("/out")) == ["/out/run1.ce", "/out/run1.z"]


def test_what_a_reader_leaves_beside_its_data_is_not_sent(memory: Any) -> None:
    memory.pipe("/data/a.txt", b"one")
    path = Path(local_path("memory://data/a.txt"))
    path.with_name("a.txt.index").write_bytes(b"mine")
    deliver()
    assert memory.find("/data") == ["/data/a.txt"]


def test_a_transfer_that_breaks_off_leaves_what_was_there(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe("/data/a.txt", b"one")
    path = Path(local_path("memory://data/a.txt"))
    memory.pipe("/data/a.txt", b"two, longer")

    def half(self: Any, there: str, here: str, **given: Any) -> None:
        Path(here).write_bytes(b"tw")

    monkeypatch.setattr(type(memory), "get_file", half)
    with pytest.raises(DataError) as caught:
        local_path("memory://data/a.txt", Location("r.cntk", 3, 5), again=True)
    assert str(caught.value) == (
        "r.cntk:3:5: 'memory://data/a.txt' cannot be brought here: it has 11 bytes, and 2 have come\n"
        "    Somebody may be writing it. Try again."
    )
    assert path.read_bytes() == b"one"
    assert not list((path.parents[2] / ".new").iterdir())


def test_a_lost_connection(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*given: Any, **named: Any) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(type(memory), "info", lost)
    with pytest.raises(DataError) as caught:
        local_path("memory://data/a.txt", Location("r.cntk", 3, 5))
    assert str(caught.value).startswith(
        "r.cntk:3:5: 'memory://data/a.txt' cannot be looked at: ConnectionResetError: Connection reset by peer\n"
        "    See whether it is written rightly"
    )


def test_a_place_where_nothing_may_be_written(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(local_path("memory://out/a.txt")).write_bytes(b"mine")

    def refused(*given: Any, **named: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(memory), "open", refused)
    with pytest.raises(DataError, match=r"^'memory://out/a.txt' cannot be written: PermissionError: Permission denied"):
        deliver()


def test_an_unknown_scheme() -> None:
    with pytest.raises(DataError) as caught:
        local_path("memroy://data/a.txt", Location("r.cntk", 3, 5))
    assert str(caught.value).startswith(
        "r.cntk:3:5: 'memroy://data/a.txt': nothing reads addresses with 'memroy://'; did you mean 'memory'?\n"
        "    Known are abfs, "
    )


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(DataError) as caught:
        local_path("s3://bucket/a.txt", Location("r.cntk", 3, 5))
    text = str(caught.value)
    assert text.startswith("r.cntk:3:5: 's3://bucket/a.txt' needs a library that is not installed: ")
    assert text.endswith('\n    pip install "cntk-hook-addresses[s3]"')


def test_without_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNTK_PLUGINS", "-cntk-hook-addresses")
    with pytest.raises(MissingPluginError) as caught:
        local_path("s3://bucket/a.txt", Location("r.cntk", 3, 5))
    assert str(caught.value) == (
        "r.cntk:3:5: 's3://bucket/a.txt' is an address, and nothing that is installed brings files from elsewhere\n"
        "    pip install cntk-hook-addresses"
    )


def test_other_names_stay_as_they_are() -> None:
    for name in ("data/a.txt", "/data/a.txt", "C:/data/a.txt", "C:\\data\\a.txt", "a:b", "", "-"):
        assert local_path(name) == name
    assert with_addresses("nothing was asked for") == "nothing was asked for"


def test_threads_fetch_side_by_side(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe({"/data/a": b"1", "/data/b": b"2"})
    both = threading.Barrier(2, timeout=60)
    fetch = remote.fetch

    def wait(one: remote.Found, into: Path) -> None:
        both.wait()
        fetch(one, into)

    monkeypatch.setattr(remote, "fetch", wait)
    local_path("memory://data/nothing")
    with ThreadPoolExecutor(2) as threads:
        paths = list(threads.map(local_path, ("memory://data/a", "memory://data/b")))
    assert [Path(path).read_bytes() for path in paths] == [b"1", b"2"]


def test_room_is_made_while_files_come(memory: Any, monkeypatch: pytest.MonkeyPatch, forget: Callable[[], None],
                                       copies: Path) -> None:  # fmt: skip
    monkeypatch.setenv(room.SIZE, "2500")
    memory.pipe({f"/data/{name}": b"x" * 1000 for name in "abc"})
    old = [Path(local_path(f"memory://data/{name}")) for name in "ab"]
    (copies / ".uses").rename(copies / "ended")  # as if that process had ended
    os.utime(copies / ".records/memory/data/b.json", (1e9, 1e9))
    forget()
    new = Path(local_path("memory://data/c"))
    assert [path.exists() for path in (*old, new)] == [True, False, True]


def test_what_was_used_longest_ago_goes(
    memory: Any, monkeypatch: pytest.MonkeyPatch, copies: Path, forget: Callable[[], None]
) -> None:
    monkeypatch.setenv(room.SIZE, "2k")
    for name in ("a", "b", "c"):
        memory.pipe(f"/data/{name}", name.encode() * 1000)
    ended = [Path(local_path(f"memory://data/{name}")) for name in ("b", "a")]
    ended[1].write_bytes(b"changed here, and not sent")
    for age, path in enumerate(ended):
        record = copies / ".records/memory/data" / f"{path.name}.json"
        os.utime(record, (1e9 + age, 1e9 + age))
    (copies / ".uses").rename(copies / "ended")  # as if that process had ended
    forget()
    local_path("memory://data/c")
    monkeypatch.setenv(room.SIZE, "1")
    Store()._make_room()
    assert [path.exists() for path in ended] == [False, True]
    assert Path(local_path("memory://data/c")).exists()  # this process uses it


@pytest.mark.parametrize(("text", "size"), [("", 50 << 30), ("800", 800), ("2k", 2048), ("1.5G", None), ("3 GiB", None),
                                             ("3GiB", 3 << 30), ("2T", 2 << 40)])  # fmt: skip
def test_sizes(text: str, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(room.SIZE, text)
    if size is not None:
        assert room.limit() == size
        return
    with pytest.raises(
        Exception, match=rf"^{room.SIZE} is '{text}', which is no size\n    Write it like 800M, 50G or 2T"
    ):
        room.limit()


PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(PARTS, min_size=1, max_size=4).filter(lambda parts: bool(parts[-1])))
def test_each_path_is_of_one_address(parts: list[str]) -> None:
    mirror = Mirror(Path("/cache/addresses").absolute())
    address = f"s3://bucket/{'/'.join(parts)}"
    path = mirror.path(address)
    assert path is not None
    assert path.is_relative_to(mirror.folder / "s3/bucket")
    assert ".." not in path.parts
    assert mirror.address(path) == address


def test_addresses_that_a_path_has_shortened() -> None:
    mirror = Mirror(Path("/cache/addresses").absolute())
    for address in ("s3://bucket/a", "file:///data/a"):
        assert mirror.path(str(Path(address)).replace("\\", "/")) == mirror.path(address)
