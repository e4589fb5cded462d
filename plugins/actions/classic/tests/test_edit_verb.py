"""Which files are scripts for ``cntk edit``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_action_classic.edit_verb import is_script

from cntk_core.api import UsageError


def test_scripts_are_told_by_their_suffix(tmp_path: Path) -> None:
    path = tmp_path / "a.MEL"
    assert is_script(str(path))
    assert not is_script(str(tmp_path / "nothing.cntk"))
    path = tmp_path / "r.cntk"
    path.write_text("command = X\n", encoding="utf-8")
    assert not is_script(str(path))
    path.write_bytes(b"BCN\0")
    with pytest.raises(UsageError) as caught:
        is_script(str(path))
    assert caught.value.message == f"'{path}' is a model; say what is to be done with it"
