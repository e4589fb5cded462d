"""Objects that LLVM has made are loaded without it: importing LLVM takes longer than all the rest of loading.

An object of ours is code, the numbers that it reads, and places where an address is to be written: of those numbers, or
of a function of the C library. Nothing else is loaded here; who calls leaves such an object, and those for another
system or processor, to LLVM's own loader.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import attrs

# The format is ELF's, 64 bits, little endian: "System V Application Binary Interface", chapter 4.
_OBJECT = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_BYTES, _SYMBOLS, _RELOCATIONS, _ZEROS = 1, 2, 4, 8
_WRITTEN, _LOADED = 1, 2
_NOWHERE, _RESERVED = 0, 0xFF00
_ADDRESS = 1
"""The kind of relocation that is an address of 8 bytes. Code that may lie far from its numbers has no other."""


class CannotLoad(Exception):
    """An object has something that is left to LLVM's loader; the text says what."""


@attrs.frozen
class _Section:
    kind: int
    flags: int
    begin: int
    size: int
    link: int
    info: int
    align: int


def loads_here() -> bool:
    """Whether objects are loaded here on this system and processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def load_object(code: bytes, name: str) -> int:
    """Load an object and return the address of a function of it. It stays in memory as long as the process.

    Args:
        code: the object.
        name: of the function.

    Raises:
        CannotLoad: it has something that is not loaded here.
        OSError: the system gives no memory that may be run.
    """
    sections = _sections(code)
    offsets, size = _places(sections)
    image = bytearray(size)
    for number, offset in offsets.items():
        section = sections[number]
        if section.kind == _BYTES:
            image[offset : offset + section.size] = code[section.begin : section.begin + section.size]
    base = _memory(size)
    function = None
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in offsets:
            for where, symbol, kind, more in _relocations(code, section):
                if kind != _ADDRESS:
                    raise CannotLoad(f"a relocation of kind {kind}")
                address = _address(code, sections, section.link, symbol, base, offsets)
                struct.pack_into("<Q", image, offsets[section.info] + where, address + more)
        if section.kind == _SYMBOLS:
            function = _function(code, sections, section, name, offsets)
    if function is None:
        raise CannotLoad(f"no function '{name}'")
    _make_runnable(base, image)
    return base + function


def _sections(code: bytes) -> list[_Section]:
    if code[:6] != _OBJECT or len(code) < _HEADER.size:
        raise CannotLoad("another format")
    _, kind, machine, _, _, _, table, _, _, _, _, size, count, _ = _HEADER.unpack_from(code)
    if (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise CannotLoad("another kind of file")
    found = []
    for begin in range(table, table + count * size, size):
        _, kind, flags, _, place, length, link, info, align, _ = _SECTION.unpack_from(code, begin)
        found.append(_Section(kind, flags, place, length, link, info, align))
    return found


def _places(sections: Sequence[_Section]) -> tuple[dict[int, int], int]:
    """Return where each section lies that is loaded, and how much there is."""
    offsets, size = {}, 0
    for number, section in enumerate(sections):
        if not section.flags & _LOADED:
            continue
        if section.kind not in (_BYTES, _ZEROS) or section.flags & _WRITTEN:
            raise CannotLoad("a section that is written to, or of another kind")
        size += -size % max(section.align, 1)
        offsets[number] = size
        size += section.size
    return offsets, size


def _relocations(code: bytes, section: _Section) -> Iterator[tuple[int, int, int, int]]:
    """Each place, the number of its symbol, what is written there, and a number to add."""
    for begin in range(section.begin, section.begin + section.size, _RELOCATION.size):
        where, info, more = _RELOCATION.unpack_from(code, begin)
        yield where, info >> 32, info & 0xFFFFFFFF, more


def _address(
    code: bytes, sections: Sequence[_Section], table: int, symbol: int, base: int, offsets: dict[int, int]
) -> int:
    name, _, _, section, value, _ = _SYMBOL.unpack_from(code, sections[table].begin + symbol * _SYMBOL.size)
    if section == _NOWHERE:
        return _library_function(_text(code, sections[sections[table].link].begin + name))
    if section >= _RESERVED or section not in offsets:
        raise CannotLoad("a symbol that lies in no section")
    return base + offsets[section] + int(value)


def _function(
    code: bytes, sections: Sequence[_Section], table: _Section, wanted: str, offsets: dict[int, int]
) -> int | None:
    names = sections[table.link].begin
    for begin in range(table.begin, table.begin + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(code, begin)
        if section in offsets and _text(code, names + name) == wanted:
            return offsets[section] + int(value)
    return None


def _text(code: bytes, begin: int) -> str:
    return code[begin : code.index(b"\0", begin)].decode()


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = [ctypes.CDLL(None, use_errno=True)]
    # The loader of musl has the functions of numbers in the one library that there is.
    with suppress(OSError):
        found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)


@functools.cache
def _library_function(name: str) -> int:
    """The address of a function of the C library."""
    for library in _libraries():
        with suppress(AttributeError):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    raise CannotLoad(f"no function '{name}' in the C library")


def _memory(size: int) -> int:
    """Return new memory that can be written.

    It is not Python's ``mmap``, which gives its memory back when the interpreter ends: threads of readers may still run
    a loop of theirs then.
    """
    (library, *_) = _libraries()
    library.mmap.restype = ctypes.c_void_p
    number = ctypes.c_int
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_ssize_t)
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = library.mmap(None, size, access, kind, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for compiled code")
    return int(address)


def _make_runnable(base: int, image: bytearray) -> None:
    """Write code into memory, which can be run and no longer be written then."""
    (library, *_) = _libraries()
    ctypes.memmove(base, bytes(image), len(image))
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if library.mprotect(base, len(image), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory may not be run")
