"""Files of weights among the formats of models: written by their suffix, and explained where they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat, ModelFormatError
from cntk_core.api.builders import is_weights_file

if TYPE_CHECKING:
    from cntk_core.api import Network

_BEGINNINGS = (b"PK\x03\x04", b"\x93NUMPY", b"{")


class WeightsFormat(ModelFormat):
    """Arrays by the names of nodes, in NumPy's npz files; they describe no network."""

    requires_api = "1.0"
    suffixes = (".npz",)

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it is a file of arrays by its beginning and its name."""
        return begin.startswith(_BEGINNINGS) and is_weights_file(path)

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Say what can be done with it.

        Raises:
            ModelFormatError: always.
        """
        raise ModelFormatError(
            f"'{path}' holds weights alone, no network",
            hint=f"'cntk weights NETWORK --from {path} -o NEW' gives them to a network.",
        )

    def save(self, network: Network, path: Path) -> None:
        """Write the values of all nodes in NumPy's order of axes.

        Raises:
            NetworkError: no node has values.
            OSError: the file cannot be written.
        """
        from cntk_model_weights.exchange import save_weights

        save_weights(network, path)
