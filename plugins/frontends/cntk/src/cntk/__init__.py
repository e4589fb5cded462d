"""CNTK 2's Python on cntk-core: ``import cntk as C``.

Names are imported when somebody asks for them, so that importing the package takes little time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cntk._inherited import inherit
from cntk._names import MODULES, NAMES
from cntk.default_options import default_options as default_options  # else it would be the module of that name

__version__ = "2.7"

FreeDimension = -3
InferredDimension = -1

if not TYPE_CHECKING:  # a type checker looks into the modules

    def __getattr__(name: str) -> Any:
        """Return a name of one of the modules, which is imported now.

        Raises:
            AttributeError: there is no such name.
        """
        if name in MODULES:
            found = import_module(MODULES[name])
        elif name in NAMES:
            found = getattr(import_module(NAMES[name]), name)
        else:
            raise AttributeError(f"module 'cntk' has no attribute '{name}'")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Return all names of the package."""
    return sorted({*globals(), *MODULES, *NAMES})


__all__ = sorted({*MODULES, *NAMES, "FreeDimension", "InferredDimension"})

inherit(__name__)
