"""What is true of every wheel."""

from __future__ import annotations

from typing import ClassVar

from cntk_testing import WheelContract


class TestWheel(WheelContract):
    distribution = "cntk-sklearn"
    may_import: ClassVar[frozenset[str]] = frozenset({"sklearn"})
