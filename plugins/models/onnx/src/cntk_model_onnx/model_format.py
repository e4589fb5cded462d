"""ONNX as a format of model files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat
from cntk_model_onnx.settings import ExportSettings

if TYPE_CHECKING:
    from cntk_core.api import Network


class OnnxFormat(ModelFormat):
    """Graphs of ONNX, as other programs run and write them."""

    requires_api = "1.0"
    suffixes = (".onnx",)

    def __init__(self) -> None:
        self.settings = ExportSettings()

    def take_settings(self, settings: Mapping[str, str]) -> None:
        """Take settings: see :class:`~cntk_model_onnx.settings.ExportSettings`.

        Raises:
            UsageError: there is no such setting, or it cannot be that.
        """
        self.settings = ExportSettings.of(settings)

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it may be a model of ONNX, which has no mark: its first fields are those that one begins with."""
        from cntk_model_onnx.sniff import looks_like

        return looks_like(begin, path)

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network: our own as it was, another's as far as its operations are known.

        Raises:
            ModelFormatError: the file is damaged.
            UnsupportedError: names all operations that are not known.
        """
        from cntk_model_onnx.read.load import load

        return load(path, find_op, dtype)

    def save(self, network: Network, path: Path) -> None:
        """Write a network.

        Raises:
            Problems, UnsupportedError: names all nodes that cannot be written, and why.
            NetworkError: there is no output.
            OSError: the file cannot be written.
        """
        from cntk_model_onnx.save import save

        save(network, path, self.settings)

    def check(self, network: Network, path: Path) -> str:
        """Return how far what onnxruntime computes of random data is from what the network computes.

        Raises:
            PluginError: onnxruntime is not there.
            DataError: it cannot run the file, or the difference is large.
        """
        from cntk_model_onnx.check import check

        return check(network, path, self.settings)
