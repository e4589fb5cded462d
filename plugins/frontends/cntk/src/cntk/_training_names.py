"""The names of what trains, reads and reports, and the modules in which they are."""

from __future__ import annotations

BY_MODULE: dict[str, str] = {
    "cntk.debugging": "",
}
"""Each module with its names that the package has, too."""

MODULES: dict[str, str] = {
    "debugging": "cntk.debugging",
}
"""Names that are modules."""
