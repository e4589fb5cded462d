"""Order and values of what sources read, beside the original 2.7, which read the same files: data/readers.json."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "data" / "readers.json").read_text())
_SPEC = importlib.util.spec_from_file_location("reader_cases", HERE / "reader_cases.py")
assert _SPEC is not None
assert _SPEC.loader is not None
cases = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cases)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("readers")
    cases.write(str(found))
    shutil.copy(HERE / "data" / "plain.cbf", found)
    return found


def test_all_cases_are_recorded() -> None:
    assert cases.CASES.keys() == RECORDED.keys()


@pytest.mark.parametrize("case", sorted(cases.CASES))
def test_as_the_original(case: str, folder: Path) -> None:
    assert cases.read(str(folder), case) == RECORDED[case]
