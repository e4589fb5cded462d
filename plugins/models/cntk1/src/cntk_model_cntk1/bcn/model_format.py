"""The format of CNTK-1 models, as a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat
from cntk_model_cntk1.bcn.load import MAGIC, load_bcn

if TYPE_CHECKING:
    from cntk_core.api import Network


class Cntk1Format(ModelFormat):
    """Models that the actions of CNTK 1 and 2.0 wrote ("BCN"): read, never written."""

    requires_api = "1.0"

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it is such a model."""
        return begin.startswith(MAGIC)

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network with its values, and infer its shapes.

        Raises:
            ModelFormatError: the file is damaged or newer.
            UnsupportedError: there is something in it that is not there yet.
        """
        return load_bcn(path, find_op, dtype)
