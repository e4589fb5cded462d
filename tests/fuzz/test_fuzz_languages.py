"""The fuzzer finds nothing in a small number of inputs; a larger one is for `tools/fuzz_languages.py` by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = sorted(path.name for path in (ROOT / "tests" / "fuzz" / "corpus").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_mutated_texts(language):
    command = [sys.executable, str(ROOT / "tools" / "fuzz_languages.py"), "--language", language, "--inputs", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{language}: 1000 inputs" in done.stdout
