"""The name under which scripts import the original's library itself; it is :mod:`cntk.cntk_py`."""

from __future__ import annotations

import sys

from cntk import cntk_py

sys.modules[__name__] = cntk_py
