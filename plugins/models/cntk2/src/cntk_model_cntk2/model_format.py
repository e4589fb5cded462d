"""The format of CNTK-2 models, as a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cntk_core.api import FindOp, ModelFormat, UsageError, did_you_mean

if TYPE_CHECKING:
    from cntk_core.api import Network

_BLOCKS = "blocks"
_CHOICES = {"no": False, "yes": True}


class Cntk2Format(ModelFormat):
    """Models that the Python, C++ and C# libraries of CNTK 2.0 to 2.7 save."""

    requires_api = "1.0"
    suffixes = (".cntk2",)

    def __init__(self) -> None:
        self.blocks = False

    def take_settings(self, settings: Mapping[str, str]) -> None:
        """Take ``blocks``: ``yes`` writes blocks as functions, ``no``, the default, as what is inside them.

        Raises:
            UsageError: there is no such setting, or it cannot be that.
        """
        for name, value in settings.items():
            if name != _BLOCKS:
                hint = f"Settings: {_BLOCKS}"
                raise UsageError(f"CNTK-2 files have no setting '{name}'{did_you_mean(name, [_BLOCKS])}", hint=hint)
            if value not in _CHOICES:
                raise UsageError(f"the setting {_BLOCKS} cannot be '{value}'", hint="It is yes or no.")
            self.blocks = _CHOICES[value]

    def recognizes(self, begin: bytes, path: Path) -> bool:
        """Whether it is a dictionary of CNTK 2: a version, and an entry with its key."""
        if len(begin) < 6 or begin[0] != 0x08 or not 0 < begin[1] < 128 or begin[2] != 0x12:
            return False
        key = next((index for index in range(3, 13) if index < len(begin) and begin[index] < 128), 0) + 1
        return key > 1 and begin[key : key + 1] == b"\x0a"

    def load(self, path: Path, find_op: FindOp, dtype: Any = None) -> Network:
        """Read a network with its values, and infer its shapes.

        Raises:
            ModelFormatError: the file is damaged or newer.
            UnsupportedError: there is something in it that is not there.
        """
        from cntk_model_cntk2.load import load_model

        return load_model(path, find_op, dtype).network

    def save(self, network: Network, path: Path) -> None:
        """Write a network with its values, for CNTK 2.0 if that has its operations, else for 2.7.

        Raises:
            Problems, UnsupportedError: there are operations that CNTK 2 does not have.
            NetworkError: a parameter has no value.
            OSError: the file cannot be written.
        """
        from cntk_model_cntk2.save import save_model

        save_model(network, path, blocks=self.blocks)
