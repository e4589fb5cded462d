"""``python -m cntk_core`` is the command ``cntk``."""

from __future__ import annotations

import sys

from cntk_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
