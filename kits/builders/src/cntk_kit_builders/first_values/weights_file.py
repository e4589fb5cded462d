"""Arrays by name in files of other programs: NumPy's (npy, npz), safetensors, and the index of several of these.

Nothing of an array is read before it is asked for, and no file runs code: pickled objects are refused.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, Location, did_you_mean
from cntk_core.network.tensor_file import check_is_file

INDEX = ".safetensors.index.json"
"""End of the name of an index: Hugging Face's way to spread a large model's arrays over several files."""

_MOST_OF_INDEX = 100_000_000
_SHOWN = 12
_KINDS = "fiub"
_ADDRESS = re.compile(r"(.+?\.(?:npy|npz|safetensors\.index\.json|safetensors))(?:/(.*))?", re.IGNORECASE | re.DOTALL)
_BFLOAT16 = "BF16"


@attrs.frozen
class Entry:
    """An array of a file: its shape, and the name of its type."""

    shape: tuple[int, ...]
    dtype: str


@attrs.frozen(eq=False)
class WeightsFile:
    """A file of arrays.

    Attributes:
        path: where it is.
        entries: what it holds, by name; the only array of an ``.npy`` file has none.
    """

    path: Path
    entries: Mapping[str, Entry]
    _read: Callable[[str], NDArray[Any]]

    def only(self) -> str:
        """Return the name of the only array.

        Raises:
            DataError: there are several, or none.
        """
        if len(self.entries) != 1:
            raise self._error(
                f"the file has {len(self.entries)} arrays", f"Name one: {self.path.name}/NAME. {self._known()}"
            )
        return next(iter(self.entries))

    def read(self, name: str) -> NDArray[Any]:
        """Return an array of numbers, in single or double precision.

        Raises:
            DataError: there is no such array, its values are no numbers, or the file is damaged.
        """
        if name not in self.entries:
            raise self._error(f"there is no array '{name}'{did_you_mean(name, self.entries)}", self._known())
        try:
            values = self._read(name)
        except DataError:
            raise
        except Exception as error:  # whatever a library finds wrong
            raise self._error(f"the array '{name}' cannot be read: {error}") from None
        if values.dtype.kind not in _KINDS:
            raise self._error(f"the array '{name}' has values of type {values.dtype}, which are no numbers")
        return values if values.dtype in (np.float32, np.float64) else values.astype(_wide(values.dtype))

    def _known(self) -> str:
        names = sorted(self.entries)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"It has {', '.join(names[:_SHOWN])}{more}." if names else ""

    def _error(self, message: str, hint: str = "") -> DataError:
        return DataError(message, where=Location(str(self.path)), hint=hint)


def is_weights_file(path: str | Path) -> bool:
    """Whether the name of a file says that it holds arrays by name."""
    name = Path(path).name.lower()
    return name.endswith((".npy", ".npz", ".safetensors", INDEX))


def open_weights(path: Path, where: Location | None = None) -> WeightsFile:
    """Look into a file of arrays.

    Args:
        path: ends in ``.npy``, ``.npz``, ``.safetensors`` or ``.safetensors.index.json``.
        where: the place that names it, for errors.

    Raises:
        DataError: it is missing, damaged, or of another kind.
    """
    name = path.name.lower()
    openers = {".npy": _open_npy, ".npz": _open_npz, ".safetensors": _open_safetensors, INDEX: _open_index}
    opener = next((made for suffix, made in openers.items() if name.endswith(suffix)), None)
    if opener is None:
        raise DataError(f"'{path}' is no file of arrays", where=where, hint=f"Its name must end in {_either(openers)}.")
    check_is_file(path, "file", DataError)
    try:
        return opener(path)
    except OSError as error:
        if error.strerror is None:
            raise _damaged(path, str(error)) from None
        raise DataError(f"cannot read the weights '{path}': {error.strerror}", where=where) from None
    except DataError:
        raise
    except Exception as error:  # whatever a library finds wrong
        raise _damaged(path, str(error)) from None


def _either(words: Mapping[str, Any]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"the file is damaged: {reason}", where=Location(str(path)))


def _wide(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """The precision that holds all numbers of a type, or the widest one."""
    return np.float32 if dtype.itemsize <= 2 else np.float64


# -- NumPy's files ---------------------------------------------------------------------------------------------------


def _open_npy(path: Path) -> WeightsFile:
    with path.open("rb") as file:
        entry = _header(file, path, path.stat().st_size)
    return WeightsFile(path, {"": entry}, lambda name: np.asarray(np.load(path, allow_pickle=False)))


def _open_npz(path: Path) -> WeightsFile:
    entries: dict[str, Entry] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    entries[member.filename.removesuffix(".npy")] = _header(file, path, member.file_size)

    def read(name: str) -> NDArray[Any]:
        with zipfile.ZipFile(path) as archive, archive.open(name + ".npy") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    return WeightsFile(path, entries, read)


def _header(file: IO[bytes], path: Path, size: int) -> Entry:
    """Read what NumPy writes before an array, and compare it with how much there is."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise _damaged(path, f"NumPy's format {version[0]}.{version[1]} is not known")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise DataError("the file holds Python objects, not numbers", where=Location(str(path)))
    if size - file.tell() != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, "an array's header does not fit the size of its values")
    return Entry(tuple(shape), dtype.name)


def npz_chunks(arrays: Mapping[str, NDArray[Any]]) -> list[memoryview]:
    """Return the bytes of an npz file. NumPy's own writer cannot name an array ``file``."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return [content.getbuffer()]


# -- safetensors -----------------------------------------------------------------------------------------------------


def _open_safetensors(path: Path) -> WeightsFile:
    with path.open("rb"):  # a message of the system, rather than of the library, where it cannot be read
        pass
    from safetensors import safe_open

    entries = {}
    with safe_open(path, framework="np") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            part = file.get_slice(name)
            entries[name] = Entry(tuple(part.get_shape()), str(part.get_dtype()))

    def read(name: str) -> NDArray[Any]:
        if entries[name].dtype == _BFLOAT16:
            return _read_bfloat16(path, name)
        with safe_open(path, framework="np") as file:
            return np.asarray(file.get_tensor(name))

    return WeightsFile(path, entries, read)


def _read_bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """Read what NumPy has no type for: the upper halves of numbers in single precision."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        first, last = header[name]["data_offsets"]
        file.seek(first, 1)
        halves = np.frombuffer(file.read(last - first), "<u2")
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(header[name]["shape"])


def _open_index(path: Path) -> WeightsFile:
    """Open the files that an index names, all in its folder."""
    if path.stat().st_size > _MOST_OF_INDEX:
        raise _damaged(path, "it is too long for an index")
    content = json.loads(path.read_text(encoding="utf-8"))
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise _damaged(path, "it has no 'weight_map' of names and files")
    outside = [file for file in places.values() if Path(file).name != file or file.startswith("..")]
    if outside:
        raise _damaged(path, f"'{outside[0]}' is not in the folder of the index")
    parts = {file: _open_safetensors(path.with_name(file)) for file in sorted(set(places.values()))}
    missing = [name for name, file in places.items() if name not in parts[file].entries]
    if missing:
        raise _damaged(path, f"'{places[missing[0]]}' has no array '{missing[0]}'")
    entries = {name: parts[file].entries[name] for name, file in places.items()}
    return WeightsFile(path, entries, lambda name: parts[places[name]].read(name))


# -- one array as first values ---------------------------------------------------------------------------------------


@attrs.frozen
class ArrayAddress:
    """Where first values lie: ``FILE/NAME``, or ``FILE/NAME^T`` with the axes the other way round.

    Attributes:
        path: the file of arrays.
        name: of the array; None where the file has one alone.
        transposed: its axes are those of NumPy's order, the reverse of CNTK's.
    """

    path: Path
    name: str | None
    transposed: bool

    @classmethod
    def parse(cls, path: Path) -> ArrayAddress | None:
        """Return what a path says; None where it names no file of arrays."""
        found = _ADDRESS.fullmatch(path.as_posix())
        if found is None:
            return None
        name = found[2] or ""
        return cls(Path(found[1]), name.removesuffix("^T") or None, name.endswith("^T"))

    def read(self, where: Location | None) -> NDArray[Any]:
        """Return the array in CNTK's order: its first axis is CNTK's first. Raises DataError."""
        file = open_weights(self.path, where)
        values = file.read(file.only() if self.name is None else self.name)
        return values.T if self.transposed else values

    @property
    def place(self) -> Location:
        """What messages name."""
        return Location(str(self.path) + (f"/{self.name}" if self.name else ""))


def fit_array(values: NDArray[Any], dims: tuple[int, ...], place: Location) -> NDArray[Any]:
    """Return an array in CNTK's order as the values of a parameter of some dimensions; axes of 1 do not count.

    Raises:
        DataError: it has other ones.
    """
    real = tuple(dim for dim in dims if dim != 1)
    found = tuple(dim for dim in values.shape if dim != 1)
    if found != real:
        turned = found == real[::-1]
        raise DataError(
            f"the array is {_sizes(values.shape)}, the parameter [{_sizes(dims)}]",
            where=place,
            hint="Its axes are the other way round: write ^T behind its name." if turned else "",
        )
    return values.T.reshape(dims[::-1])


def complete_dims(values: NDArray[Any], dims: tuple[int, ...], place: Location) -> tuple[int, ...]:
    """Return dimensions with the unknown ones (0) taken from an array in CNTK's order.

    Raises:
        DataError: it has not so many axes.
    """
    if 0 not in dims:
        return dims
    shape = values.shape
    if len(dims) == 1 and len(shape) == 2:
        return tuple(shape)
    if len(shape) < len(dims):
        shape += (1,) * (len(dims) - len(shape))
    if len(shape) != len(dims):
        raise DataError(f"the array is {_sizes(values.shape)}, the parameter has {len(dims)} dimensions", where=place)
    return tuple(dim or size for dim, size in zip(dims, shape, strict=True))


def _sizes(dims: tuple[int, ...]) -> str:
    return " x ".join(map(str, dims)) or "one number"
