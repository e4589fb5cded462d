"""Functions that numba compiles: what is kept of them, and what happens if that is damaged or cannot be kept."""

from __future__ import annotations

import importlib.util
import logging

import numpy as np
import pytest

from cntk_core.api.engines import kept_kernel, kernel_cache
from cntk_kit_engines import kept_kernels, machine_code
from cntk_testing.kept_kernels import DAMAGES, anew, check_damage, check_full_disk, entry, was_kept

pytestmark = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba")


def add(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of kernels."""
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def made(*sources, function=add, **more):
    return kept_kernel(*(sources or (__file__,)), **{"nogil": True, **more})(function)


def call(kernel, dtype=np.float32):
    out = np.empty(3, dtype)
    kernel(np.full(3, 2, dtype), out)
    assert out.tolist() == [3, 3, 3]


def test_the_second_time_it_comes_from_the_disk(folder, caplog):
    kernel = made()
    with caplog.at_level(logging.INFO, "cntk.engine"):
        assert [was_kept(kernel, call), was_kept(kernel, call)] == [False, True]
        assert not was_kept(kernel, lambda one: call(one, np.float64))
    assert caplog.messages == [f"compiling kernels (once; they are kept in {folder})"]
    assert kernel_cache().state().entries == 2


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_kernel_is_compiled_anew(folder, caplog, name):
    check_damage(made(), call, name, folder, caplog)


def test_a_full_disk_ends_nothing(folder, caplog, monkeypatch):
    check_full_disk(made(), call, folder, caplog, monkeypatch)


def test_a_kernel_with_anothers_name_does_not_run(folder, caplog):
    """Its digest is right, but it was compiled for other types."""
    kernel = made()
    was_kept(kernel, call)
    first = entry(folder)
    was_kept(kernel, lambda one: call(one, np.float64))
    (second,) = set(folder.glob("*.code")) - {first}
    first.write_bytes(second.read_bytes())
    assert not was_kept(kernel, call)
    assert caplog.messages == [
        f"compiled code in '{first}' was compiled from something else; it is thrown away and compiled anew"
    ]


def test_what_this_numba_cannot_load(folder, caplog, monkeypatch):
    """Nothing is wrong with the entry, as far as digests tell."""
    kernel = made()
    was_kept(kernel, call)
    with monkeypatch.context() as patch:
        patch.setattr("pickle.loads", lambda data: 1 / 0)
        assert not was_kept(kernel, call)
    assert caplog.messages == [
        f"compiled code in '{entry(folder)}' cannot be loaded (ZeroDivisionError: division by zero); "
        "it is thrown away and compiled anew"
    ]


@pytest.fixture
def versions(monkeypatch):
    """Versions are asked for anew."""
    kept_kernels._versions.cache_clear()
    yield monkeypatch
    kept_kernels._versions.cache_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numba.__version__", "9.9"),
        ("llvmlite.__version__", "9.9"),
        ("cntk_kit_engines.kept_kernels.platform.python_version", lambda: "3.99"),
        ("cntk_kit_engines.kept_kernels.MOST_OVERLAP_TESTS", 9),
    ],
)
def test_kernels_of_other_versions_are_not_read(folder, caplog, versions, name, value):
    was_kept(made(), call)
    kept_kernels._versions.cache_clear()
    versions.setattr(name, value)
    assert [was_kept(made(), call), was_kept(made(), call)] == [False, True]
    assert kernel_cache().state().entries == 2
    assert not caplog.messages


def test_kernels_of_another_processor_are_not_read(folder, monkeypatch):
    from numba.core.codegen import CPUCodegen

    was_kept(made(), call)
    here = CPUCodegen.magic_tuple
    monkeypatch.setattr(CPUCodegen, "magic_tuple", lambda self: (*here(self)[:1], "another processor", ""))
    assert [was_kept(made(), call), was_kept(made(), call)] == [False, True]


def test_what_decides_about_the_code(folder, tmp_path):
    def other(a, out):
        for i in range(a.shape[0]):
            out[i] = 3

    constants = tmp_path / "constants.py"
    constants.write_text("A = 1")
    was_kept(made(__file__, str(constants)), call)
    assert was_kept(made(__file__, str(constants)), call)
    assert not was_kept(made(__file__), call)
    assert not was_kept(made(__file__, str(constants), text="A = 1"), call)
    assert not was_kept(made(__file__, str(constants), fastmath={"nsz"}), call)
    assert not was_kept(made(__file__, str(constants), function=other), call)
    constants.write_text("A = 2")
    kept_kernels._digest.cache_clear()  # as a new process begins
    assert not was_kept(made(__file__, str(constants)), call)


def test_the_order_of_a_set_does_not_count(folder):
    """It is another one in each process."""
    kernel = made(fastmath={"reassoc", "nsz", "contract", "arcp", "afn"})
    assert "fastmath=['afn', 'arcp', 'contract', 'nsz', 'reassoc'], nogil=True\n" in kernel._cache._identity


def test_a_source_that_is_not_there(folder, caplog):
    kernel = made("/nowhere.py")
    assert [was_kept(kernel, call), was_kept(kernel, call)] == [False, False]
    assert caplog.messages == [
        "compiled kernels are not kept, each run compiles them anew: '/nowhere.py' cannot be read: "
        "No such file or directory"
    ]
    assert not list(folder.glob("*"))


def test_a_folder_that_cannot_be_made(tmp_path, caplog, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path / "file"))
    kernel = made()
    machine_code.say_compiling.cache_clear()
    with caplog.at_level(logging.INFO, "cntk.engine"):
        assert [was_kept(kernel, call), was_kept(kernel, call)] == [False, False]
    assert caplog.messages == [
        f"compiled kernels are not kept, each run compiles them anew: '{tmp_path}/file/kernels' cannot be used: "
        "Not a directory",
        "compiling kernels (in each run, as they are not kept)",
    ]


def test_without_a_home(caplog, monkeypatch):
    monkeypatch.setattr(machine_code, "cache_root", lambda: None)
    monkeypatch.setattr("cntk_kit_engines.code_cache.cache_root", lambda: None)
    machine_code._kernel_cache.cache_clear()
    kernel = made()
    assert [was_kept(kernel, call), was_kept(kernel, call)] == [False, False]
    assert caplog.messages == [
        "compiled kernels are not kept, each run compiles them anew: there is no home folder; "
        "CNTK_CACHE names another one"
    ]


def test_whoever_compiles_first_has_the_vectors_of_all(folder):
    """The processor of a kernel says them, so that it has one entry whatever else has been compiled in the process."""
    import llvmlite.binding as llvm

    kernel = made()
    call(kernel)
    (code,) = kernel.overloads.values()
    asked = ",-prefer-256-bit" if llvm.get_host_cpu_features().get("avx512f") else ""
    assert code.library.codegen.magic_tuple()[2].endswith(asked)


def test_it_is_not_imported_before_it_is_needed():
    """Whoever has no numba can import the kit."""
    assert importlib.util.find_spec("numba") is not None
    assert "numba" not in vars(kept_kernels)
    assert anew(made()).nopython_signatures == []
