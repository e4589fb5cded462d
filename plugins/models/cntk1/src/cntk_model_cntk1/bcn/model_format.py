"""The format of CNTK-1 models, as a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat, UsageError, did_you_mean
from cntk_model_cntk1.bcn.load import MAGIC, load_bcn

if TYPE_CHECKING:
    from cntk_core.api import Network

_VERSION = "version"


class Cntk1Format(ModelFormat):
    """Models that the actions of CNTK 1 and 2.0 read and write ("BCN")."""

    requires_api = "1.0"
    suffixes = (".cntk1",)

    def __init__(self) -> None:
        self.version = 0

    def take_settings(self, settings: Mapping[str, str]) -> None:
        """Take ``version``, that of the format; by default the oldest one that can say everything.

        Raises:
            UsageError: there is no such setting, or it is no number.
        """
        for name, value in settings.items():
            if name != _VERSION:
                hint = f"Settings: {_VERSION}"
                raise UsageError(f"CNTK-1 files have no setting '{name}'{did_you_mean(name, [_VERSION])}", hint=hint)
            if not value.isascii() or not value.isdecimal():
                raise UsageError(f"the setting {_VERSION} cannot be '{value}'", hint="It is a number such as 14.")
            self.version = int(value)

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

    def save(self, network: Network, path: Path) -> None:
        """Write a network with its values, all of its nodes.

        Raises:
            Problems, UnsupportedError: names all nodes that the format, or the version that was set, cannot say.
            NetworkError: a parameter has no value.
            UsageError: there is no such version.
            OSError: the file cannot be written.
        """
        from cntk_model_cntk1.bcn.save import save_bcn

        save_bcn(network, path, self.version)
