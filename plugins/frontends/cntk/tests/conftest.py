"""Each test begins with the seeds of a fresh program, whatever seeds the tests before it have set."""

from __future__ import annotations

from itertools import count

import pytest
from cntk import initializer


@pytest.fixture(autouse=True)
def fresh_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initializer, "_SEEDS", [map(initializer.OwnSeed, count(0))])
