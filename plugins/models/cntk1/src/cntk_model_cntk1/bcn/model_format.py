"""The format of CNTK-1 models, as a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat, UnsupportedError
from cntk_model_cntk1.bcn.load import MAGIC, load_bcn

if TYPE_CHECKING:
    from cntk_core.api import Network

_DICTIONARY = b"\x08\x01\x12"
"""How a Protobuf dictionary of version 1 begins, in which the Python library of CNTK 2.0 kept models."""


class Cntk1Format(ModelFormat):
    """Models that the actions of CNTK 1 and 2.0 wrote ("BCN"): read, never written."""

    requires_api = "1.0"

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it is such a model, or one of CNTK's Python library, of which :meth:`load` says what it is."""
        return begin.startswith(MAGIC) or _is_dictionary(begin)

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network with its values, and infer its shapes.

        Raises:
            ModelFormatError: the file is damaged or newer.
            UnsupportedError: there is something in it that is not there yet, or it is a Protobuf file.
        """
        with path.open("rb") as file:
            begin = file.read(9)
        if _is_dictionary(begin):
            raise UnsupportedError(
                f"'{path}' is a model or checkpoint that the Python library of CNTK 2.0 saved (Protobuf); "
                "only those that its actions wrote (BCN) can be read",
                hint="Train the network again from its description.",
            )
        return load_bcn(path, find_op, dtype)


def _is_dictionary(begin: bytes) -> bool:
    return begin.startswith(_DICTIONARY) and begin[8:9] != b"{"
