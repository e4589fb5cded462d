"""The launcher ``torchrun``: for real, where PyTorch is, or ``CNTK_PEER_PYTHON`` names a Python that has it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from cntk_launcher_torchrun import TorchrunLauncher, find_torchrun

from cntk_core.api import UnsupportedError
from cntk_testing import LauncherContract, PackagingContract
from cntk_testing.launcher_contract import write_recipe


@pytest.fixture(autouse=True)
def torchrun_elsewhere(monkeypatch):
    """The command may be that of another environment."""
    named = os.environ.get("CNTK_PEER_PYTHON")
    if named:
        monkeypatch.setenv("CNTK_TORCHRUN", str(Path(named).with_name("torchrun")))


@pytest.fixture
def with_torchrun():
    if find_spec("torch") is None and "CNTK_PEER_PYTHON" not in os.environ:
        pytest.skip("PyTorch is not here; CNTK_PEER_PYTHON may name an interpreter that has it")


class TestTorchrun(LauncherContract):
    launcher_class = TorchrunLauncher

    @pytest.fixture
    def place(self, with_torchrun, tmp_path):
        write_recipe(tmp_path)
        return tmp_path

    @pytest.mark.slow
    def test_given_by_hand(self, place):
        """``torchrun --nproc-per-node 2 -m cntk_core train recipe``, with this Python."""
        command = [*find_torchrun(), "--standalone", "--nproc-per-node", "2", "-m", "cntk_core", "train", "recipe.cntk"]
        environment = {**os.environ, "PYTHON_EXEC": sys.executable}
        given = {"cwd": place, "env": environment, "timeout": 300}
        done = subprocess.run(command, **given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (place / "log.rank1").is_file()
        assert (place / "model/net.dnn").is_file()


class TestPackaging(PackagingContract):
    distribution = "cntk-launcher-torchrun"
    kind = "launcher"


def test_the_command_that_is_named(monkeypatch):
    monkeypatch.setenv("CNTK_TORCHRUN", "uv run torchrun")
    found = TorchrunLauncher().launcher(3)
    assert found.command == ("uv", "run", "torchrun", "--standalone", "--no-python", "--nproc-per-node", "3")
    assert len(found.environment["CNTK_SECRET"]) == 32
    assert TorchrunLauncher().launcher(3).environment != found.environment


def test_no_pytorch(monkeypatch, tmp_path):
    monkeypatch.delenv("CNTK_TORCHRUN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UnsupportedError) as caught:
        TorchrunLauncher().launcher(2)
    assert str(caught.value) == (
        "there is no torchrun: PyTorch is not installed here\n"
        "    pip install torch, or let CNTK_TORCHRUN name the torchrun of another environment."
    )


def test_not_elastic():
    with pytest.raises(UnsupportedError, match=r"^torchrun ends all ranks when one has failed \(--elastic\)\n"):
        TorchrunLauncher().launcher(2, elastic=True)
