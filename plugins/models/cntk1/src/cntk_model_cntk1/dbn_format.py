"""The format of DBN files, as a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk_core.api import FindOp, ModelFormat
from cntk_model_cntk1.dbn_file import read_dbn, write_dbn
from cntk_model_cntk1.from_dbn import Conversion, network_of
from cntk_model_cntk1.to_dbn import dbn_of

if TYPE_CHECKING:
    from cntk_core.api import Network


class DbnFormat(ModelFormat):
    """Feed-forward networks of DBN.exe. What the action convertdbn asks the recipe for has its defaults here."""

    requires_api = "1.0"
    suffixes = (".dbn",)

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether a file begins with ``DBN``, and as a line or as a whole text."""
        return begin.startswith((b"DBN\0", b"DBN\n"))

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network with sigmoid layers, in single precision by default.

        Raises:
            ModelFormatError: the file is damaged.
            NetworkError: it has no output layer, which only the action convertdbn can add.
        """
        network = network_of(read_dbn(path), Conversion(), np.float32 if dtype is None else dtype)
        network.infer()
        return network

    def save(self, network: Network, path: Path) -> None:
        """Write a network of the form that these files hold.

        Raises:
            NetworkError: it is of another form.
            OSError: the file cannot be written.
        """
        write_dbn(dbn_of(network), str(path))
