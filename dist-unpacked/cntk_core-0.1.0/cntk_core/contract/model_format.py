"""ModelFormat: a kind of files that hold a network with its values.

A wheel offers it as an entry point of the group ``cntk.model_formats``; the name of the entry point is what messages
and ``cntk convert --format`` call it::

    class ListFormat(ModelFormat):
        requires_api = "1.0"
        suffixes = (".netlist",)

        def recognizes(self, begin: bytes, path: Path) -> bool:
            return begin.startswith(b"NETLIST")

        def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
            ...
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cntk_core.contract.component import Component
from cntk_core.errors import UnsupportedError, UsageError
from cntk_core.network.network import Network
from cntk_core.ops.table import FindOp

BEGIN = 64
"""So many bytes from the beginning of a file are shown to :meth:`ModelFormat.recognizes`."""


class ModelFormat(Component):
    """Reads, and perhaps writes, models. Made without arguments.

    Attributes:
        suffixes: ends of file names, with the dot and in lower case, for which ``cntk convert`` writes this format.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether a file is of this format, or one that this format explains in its error. Must be quick.

        Args:
            begin: the first :data:`BEGIN` bytes, fewer of a shorter file.
            path: the file, for formats that the beginning does not tell.
        """

    @abstractmethod
    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network with its values, and infer its shapes.

        Args:
            path: the file.
            find_op: ``("model", name)`` to the operation or None.
            dtype: convert to this precision; None keeps that of the file.

        Raises:
            ModelFormatError: the file is damaged, from a newer version, or describes no sound network.
            UnsupportedError: there is something in it that cannot be read yet.
        """

    def take_settings(self, settings: Mapping[str, str]) -> None:
        """Take settings of :meth:`save` by name. Raises UsageError for what there is not; by default all."""
        if settings:
            raise UsageError(f"{type(self).__name__} has no setting '{next(iter(settings))}'")

    def check(self, network: Network, path: Path) -> str:
        """Return a line that tells how well another program does with a file just written. Raises CntkError."""
        raise UnsupportedError(f"nothing checks models in the format of {type(self).__name__}")

    def save(self, network: Network, path: Path) -> None:
        """Write a network with its values; an old file is there until the new one is whole.

        Raises:
            UnsupportedError: files of this format are only read.
            CntkError: the network cannot be written in this format.
            OSError: the file cannot be written.
        """
        raise UnsupportedError(f"models in the format of {type(self).__name__} are read, not written")
