"""Puts this folder on the path, so that the tests find what runs scripts beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def disk(tmp_path):
    from mel_scripts import Disk

    return Disk(tmp_path)
