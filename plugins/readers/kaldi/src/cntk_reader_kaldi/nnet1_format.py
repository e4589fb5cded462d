"""Files of Kaldi's nnet1 as models: networks that are read, trained, and written back."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk_core.api import DataError, FindOp, ModelFormat, ModelFormatError, UsageError, did_you_mean
from cntk_reader_kaldi.nnet1_components import KINDS, Component, Values, read_components
from cntk_reader_kaldi.nnet1_match import components_of
from cntk_reader_kaldi.nnet1_nodes import network_of

if TYPE_CHECKING:
    from cntk_core.api import Network

_WORDS = {"what": "network of nnet1", "hint": "It is a file of Kaldi's nnet1, such as final.nnet or nnet.init."}
_UNKNOWN = "Another one has no nodes here."
_WHOLE = ("CellDim",)


class Nnet1Format(ModelFormat):
    """Networks of Kaldi's nnet1, binary or text."""

    requires_api = "1.0"
    suffixes = (".nnet",)

    def __init__(self) -> None:
        self._text = False

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether a file begins with ``<Nnet>``, in binary or text form."""
        return begin.startswith((b"\0B<Nnet> ", b"<Nnet>"))

    def take_settings(self, settings: Mapping[str, str]) -> None:
        """Take ``text=true``, for text form. Raises UsageError."""
        for name, value in settings.items():
            if name != "text":
                raise UsageError(f"files of nnet1 have no setting '{name}'{did_you_mean(name, ['text'])}")
            if value not in ("true", "false"):
                raise UsageError(f"the setting text is true or false, not '{value}'")
            self._text = value == "true"

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network: an input ``features``, and for each component a node called after it.

        Raises:
            ModelFormatError: the file is damaged, or has a component that is not known.
        """
        try:
            components = read_components(path, None, KINDS, _UNKNOWN, **_WORDS)
        except DataError as error:
            raise ModelFormatError(error.message, where=error.where, hint=error.hint) from None
        return network_of(components, find_op, np.float32 if dtype is None else dtype)

    def save(self, network: Network, path: Path) -> None:
        """Write a network that consists of such components, in single precision.

        Raises:
            NetworkError: it does not; names the node.
            OSError: the file cannot be written.
        """
        components = components_of(network)
        write = _text if self._text else _binary
        data = b"".join(map(write, components))
        whole = b"<Nnet> \n" + data + b"</Nnet> \n" if self._text else b"\0B<Nnet> " + data + b"</Nnet> "
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_bytes(whole)
        os.replace(unfinished, path)


def _binary(component: Component) -> bytes:
    data = f"<{component.kind}> ".encode() + _number(component.output) + _number(component.given)
    for name, value in component.numbers.items():
        data += f"<{name}> ".encode() + (_number(int(value)) if name in _WHOLE else b"\4" + struct.pack("<f", value))
    if component.places or component.kind in ("Splice", "Copy"):
        places = _places(component)
        data += _number(len(places)) + struct.pack(f"<{len(places)}i", *places)
    for array in component.arrays.values():
        data += b"FV " if array.ndim == 1 else b"FM "
        data += b"".join(map(_number, array.shape)) + array.astype("<f4").tobytes()
    return data + b"<!EndOfComponent> "


def _number(value: int) -> bytes:
    return b"\4" + struct.pack("<i", value)


def _places(component: Component) -> list[int]:
    """Return offsets of frames, or columns from 1."""
    return [place + (component.kind == "Copy") for place in component.places]


def _text(component: Component) -> bytes:
    lines = [f"<{component.kind}> {component.output} {component.given} "]
    if component.numbers:
        shown = {name: str(int(value)) if name in _WHOLE else f"{value:g}" for name, value in component.numbers.items()}
        lines.append(" ".join(f"<{name}> {value}" for name, value in shown.items()) + " ")
    if component.places:
        lines.append(f"[ {' '.join(map(str, _places(component)))} ]")
    lines += [_rows(array) for array in component.arrays.values()]
    return ("\n".join(lines) + "\n<!EndOfComponent> \n").encode()


def _rows(array: Values) -> str:
    """Return an array as Kaldi shows it, with all digits of single precision."""
    single = array.astype(np.float32)
    if array.ndim == 1:
        return f" [ {' '.join(map(repr, single.tolist()))} ]"
    return " [\n" + "\n".join("  " + " ".join(map(repr, row)) for row in single.tolist()) + " ]"
