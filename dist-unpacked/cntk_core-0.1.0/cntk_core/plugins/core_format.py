"""The program's own model format, as a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cntk_core.contract.model_format import ModelFormat
from cntk_core.network.model_file import is_own_format, load_model, save_model
from cntk_core.network.network import Network
from cntk_core.ops.table import FindOp


class CoreFormat(ModelFormat):
    """The program's own format."""

    requires_api = "1.0"
    suffixes = (".dnn", ".safetensors")

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it begins with the size of a header and the header; a recipe does not."""
        return is_own_format(begin)

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network: see :func:`cntk_core.network.model_file.load_model`."""
        return load_model(path, find_op, dtype)

    def save(self, network: Network, path: Path) -> None:
        """Write a network: see :func:`cntk_core.network.model_file.save_model`."""
        save_model(network, path)
