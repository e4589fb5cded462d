"""The format of HTK feature files: the header, reading frames, writing a file.

A file has a header of 12 bytes (frames, period of a frame in units of 100 ns, bytes of a frame, kind), and then the
frames as 32-bit floats; files of kind ``_C`` have 16-bit integers ``i`` with ``value = (i + b) / a`` for each element,
and ``a`` and ``b`` in front. HTK writes big-endian files; little-endian ones are told by their period. Files whose
name ends in ``-ubyte`` are IDX files of bytes.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, local_path

FRAME_PERIOD = 100_000
"""Period of the files that are written: 10 ms in units of 100 ns."""
USER = 9

_HEADER = 12
_IDX_HEADER = 16
_IDX_MAGIC = 2051
_GUID = 16
_OPEN_FILES = 8
_BASE = 0o77
_KINDS = {6: "MFCC", 7: "FBANK", 9: "USER", 11: "PLP", 12: "USER"}
_OTHER_KINDS = {0: "WAVEFORM", 1: "LPC", 2: "LPREFC", 3: "LPCEPSTRA", 4: "LPDELCEP", 5: "IREFC", 8: "MELSPEC"}
_OTHER_KINDS[10] = "DISCRETE"
_FESTREAM = 12
_COMPRESSED = 0o2000
_VQ = 0o40000
_QUALIFIERS = (
    (0o100, "_E"),
    (0o400, "_D"),
    (0o200, "_N"),
    (0o1000, "_A"),
    (0o100000, "_T"),
    (0o4000, "_Z"),
    (0o20000, "_0"),
)


@attrs.frozen(eq=False)
class Header:
    """What the header of a file says.

    Attributes:
        frames: how many frames the file has.
        period: of a frame, in units of 100 ns; 0 for an IDX file.
        dim: values of a frame.
        kind: such as ``MFCC_E_D``; compression and checksum are no part of it.
        order: ``>`` for big-endian files, else ``<``.
        data: offset of the first frame.
        scale, shift: ``a`` and ``b`` of a compressed file, each ``(dim,)``.
        is_bytes: the values are bytes (IDX).
    """

    frames: int
    period: int
    dim: int
    kind: str
    order: str
    data: int
    scale: NDArray[np.float32] | None = None
    shift: NDArray[np.float32] | None = None
    is_bytes: bool = False

    @property
    def stored(self) -> np.dtype[Any]:
        """Type of the values in the file."""
        if self.is_bytes:
            return np.dtype(np.uint8)
        return np.dtype(f"{self.order}f4" if self.scale is None else f"{self.order}i2")

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame in the file."""
        return self.dim * self.stored.itemsize

    @property
    def style(self) -> str:
        """What all files of a stream must have in common, in words."""
        return f"{self.dim}-dimensional {self.kind} with a frame of {self.period / 1e4:g} ms"


_DAMAGED = "The file is damaged or is no HTK feature file."
_NO_VQ = "Write them again without the qualifier _V, as floats or compressed (_C)."


class FeatureFile:
    """An open feature file. Raises DataError if it cannot be opened or its header is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file: BinaryIO = open(local_path(path), "rb")  # noqa: SIM115 - closed by close()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            hint = None
            if isinstance(error, OSError) and not os.path.exists(path):
                hint = "A relative name starts where the command runs; prefixPathInSCP=... puts a folder in front."
            raise DataError(f"cannot open feature file '{path}': {reason}", hint=hint) from None
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, first: int, last: int, target: NDArray[Any]) -> None:
        """Read the frames ``first`` to ``last``, both included, into an array ``(frames, dim)``."""
        header = self.header
        self._file.seek(header.data + first * header.frame_bytes)
        stored = self._take((last + 1 - first) * header.frame_bytes, f"the frames {first} to {last}")
        values = np.frombuffer(stored, dtype=header.stored).reshape(-1, header.dim)
        with np.errstate(all="ignore"):  # scales and shifts may be anything; what comes of them is like NaN in a file
            if header.scale is None or header.shift is None:
                target[:] = values
            else:
                target[:] = (values.astype(np.float32) + header.shift) / header.scale

    def check_range(self, first: int, last: int) -> None:
        """Raise DataError if the file has no such frames."""
        if last >= self.header.frames:
            raise DataError(
                f"frame {last} of '{self._path}' is wanted, but the file has frames 0 to {self.header.frames - 1}",
                hint=f"The range [{first},{last}] of the list counts frames from 0 and includes the last.",
            )

    # -- header -------------------------------------------------------------------------------------------

    def _read_header(self) -> Header:
        if self._path.endswith("-ubyte"):
            header = self._read_idx_header()
        else:
            header = self._read_htk_header()
        end = header.data + header.frames * header.frame_bytes
        if end > self._size:
            raise self._wrong(
                self._size,
                f"the file ends here, but its header promises {header.frames} frames up to byte {end}",
                "The file is damaged or was not copied to its end.",
            )
        return header

    def _read_idx_header(self) -> Header:
        magic, frames, rows, columns = struct.unpack(">4i", self._take(_IDX_HEADER, "the header of an IDX file"))
        if magic != _IDX_MAGIC:
            raise self._wrong(
                0,
                f"the magic number is {magic}, not {_IDX_MAGIC}",
                "Files whose name ends in -ubyte are IDX files of images; rename it if it is an HTK file.",
            )
        self._check_sizes(frames, min(rows, columns, rows * columns), 4)
        return Header(frames, 0, rows * columns, "USER", ">", _IDX_HEADER, is_bytes=True)

    def _read_htk_header(self) -> Header:
        raw = self._take(_HEADER, "the header of an HTK file")
        order = self._byte_order(raw)
        frames, period, size, code = struct.unpack(f"{order}iiHH", raw)
        kind = self._kind(code)
        compressed = bool(code & _COMPRESSED)
        width = 2 if compressed else 4
        if size % width:
            raise self._wrong(8, f"a frame of {size} bytes is not a number of {width}-byte values")
        dim = size // width
        data = _HEADER
        if code & _BASE == _FESTREAM:
            kind += f";guid={self._take(_GUID, 'the GUID of the stream').hex()}"
            data += _GUID
        if not compressed:
            self._check_sizes(frames, dim, 0)
            return Header(frames, period, dim, kind, order, data)
        frames -= 4  # The two vectors in front take the space of four frames and are counted so.
        self._check_sizes(frames, dim, 0)
        vectors = np.frombuffer(self._take(8 * dim, "the scales of a compressed file"), dtype=f"{order}f4")
        with np.errstate(invalid="ignore"):  # there are NaNs that processors remark on wherever they see them
            scale, shift = vectors.astype(np.float32).reshape(2, dim)
            has_zero = bool((scale == 0).any())
        if has_zero:
            raise self._wrong(data, "a scale of the compressed values is zero")
        return Header(frames, period, dim, kind, order, data + 8 * dim, scale, shift)

    def _byte_order(self, raw: bytes) -> str:
        """Tell big-endian from little-endian: the reading with the smaller period is right."""
        (big,), (little,) = struct.unpack_from(">I", raw, 4), struct.unpack_from("<I", raw, 4)
        if big != little:
            return ">" if big < little else "<"
        # The period reads the same both ways, so the size of the file decides.
        for order in "><":
            frames, _, size, _ = struct.unpack(f"{order}iiHH", raw)
            if frames > 0 and 0 <= self._size - _HEADER - frames * size <= 8 * size + 2:
                return order
        return ">"

    def _kind(self, code: int) -> str:
        base = code & _BASE
        if base not in _KINDS:
            name = f" ({_OTHER_KINDS[base]})" if base in _OTHER_KINDS else ""
            raise self._wrong(
                10,
                f"feature kind {base}{name} cannot be read",
                "Kinds that can be read: MFCC (6), FBANK (7), USER (9), PLP (11). Or this is no HTK file.",
            )
        if code & _VQ:
            raise self._wrong(10, "features with vector quantization (_V) cannot be read", _NO_VQ)
        return _KINDS[base] + "".join(name for bit, name in _QUALIFIERS if code & bit)

    def _check_sizes(self, frames: int, dim: int, offset: int) -> None:
        if frames <= 0:
            raise self._wrong(offset, f"the header says that the file has {frames} frames")
        if dim <= 0:
            raise self._wrong(8, "the header says that a frame has no values")

    def _take(self, count: int, what: str) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            at = self._file.tell()
            raise self._wrong(at, f"the file ends inside {what}")
        return data

    def _wrong(self, offset: int, message: str, hint: str = _DAMAGED) -> DataError:
        return DataError(f"'{self._path}', byte {offset}: {message}", hint=hint)


class FeatureFiles:
    """Opens feature files and keeps the last few open, since archives are read in the order of their frames."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, FeatureFile] = OrderedDict()
        self._lock = Lock()

    def header(self, path: str) -> Header:
        """Return the header of a file. Raises DataError."""
        with self._lock:
            return self._get(path).header

    def check_range(self, path: str, first: int, last: int) -> None:
        """Raise DataError if a file has no such frames."""
        with self._lock:
            self._get(path).check_range(first, last)

    def read(self, path: str, first: int, last: int, target: NDArray[Any]) -> None:
        """Read the frames ``first`` to ``last``, both included. Raises DataError."""
        with self._lock:
            self._get(path).read(first, last, target)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for file in self._open.values():
                file.close()
            self._open.clear()

    def _get(self, path: str) -> FeatureFile:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = FeatureFile(path)
            while len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(path)
        return file


def write_features(path: Path, frames: NDArray[Any], *, period: int = FRAME_PERIOD, kind: int = USER) -> None:
    """Write a big-endian file of 32-bit floats; missing folders are made.

    Args:
        path: the file.
        frames: ``(frames, dim)``.
        period: of a frame, in units of 100 ns.
        kind: HTK's code of the feature kind.

    Raises:
        OSError: the file cannot be written.
        ValueError: a frame has more than 65535 bytes, which the header cannot say.
    """
    values = np.ascontiguousarray(frames, dtype=">f4")
    if values.shape[1] * 4 > 0xFFFF:
        raise ValueError(f"a frame of {values.shape[1]} values is too large for an HTK file (at most 16383)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(struct.pack(">iiHH", len(values), period, values.shape[1] * 4, kind))
        file.write(values.tobytes())
