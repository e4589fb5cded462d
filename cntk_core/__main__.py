"""``python -m cntk_core`` is the command ``cntk``, which a wheel of its own brings."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points


def main() -> int:
    """Run the command; say how it is installed where it is not."""
    for script in entry_points(group="console_scripts", name="cntk"):
        if script.value.startswith("cntk_"):
            return int(script.load()() or 0)
    print("error: the command is not installed: pip install cntk-toolkit, or cntk-kit-recipes alone", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
