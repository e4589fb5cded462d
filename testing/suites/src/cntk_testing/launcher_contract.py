"""The contract of launchers: two ranks that train together, and one that fails.

A plugin's test file subclasses :class:`LauncherContract`::

    class TestRay(LauncherContract):
        launcher_class = RayLauncher
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from cntk_core.contract.component import Unavailable
from cntk_core.contract.parallel import RankLauncher
from cntk_core.plugins.manager import PluginManager
from cntk_testing.contract import Contract, check_component

RECIPE = """\
command = Train
modelPath = "model/net.dnn"
precision = double
stderr = log
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 2:4:2 ; trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError
    ]
    reader = [
        readerType = CNTKTextFormatReader ; file = "data.txt" ; randomize = false
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]
    ]
    SGD = [
        learningRatesPerSample = 0.05 ; minibatchSize = 8 ; maxEpochs = 2
        ParallelTrain = [ parallelizationMethod = DataParallelSGD ]
    ]
]
"""

PATIENCE = 300
"""Seconds that a run may take."""


def write_recipe(folder: Path) -> None:
    """Write a small recipe for several ranks, ``recipe.cntk``, and its data."""
    (folder / "recipe.cntk").write_text(RECIPE, encoding="utf-8")
    rows = [f"|features {n % 7 - 3} {n % 5 - 2} |labels {int(n % 2)} {int(n % 2 == 0)}\n" for n in range(40)]
    (folder / "data.txt").write_text("".join(rows), encoding="utf-8")


class LauncherContract(Contract):
    """Tests of a launcher for pytest: subclass it. They are skipped where it cannot run.

    Attributes:
        launcher_class: what is tested.
    """

    launcher_class: ClassVar[type[RankLauncher]]

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """A folder with the recipe, in which the command runs; also what the launcher needs around it."""
        write_recipe(tmp_path)
        return tmp_path

    def name(self) -> str:
        """The word for ``--on``, as the wheel offers it."""
        offers = PluginManager(load_hooks=False).registry.launchers.offers()
        return next(offer.name for offer in offers if offer.outcome() is self.launcher_class)

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the recipe on two ranks, with further words on the command line."""
        answer = self.launcher_class.availability()
        if isinstance(answer, Unavailable):
            pytest.skip(answer.reason)
        command: Sequence[str] = (sys.executable, "-m", "cntk_core", "train", "recipe.cntk", "-n", "2")
        command = [*command, "--on", self.name(), *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written, and is made without arguments."""
        check_component(self.launcher_class)
        self.launcher_class()

    @pytest.mark.slow
    def test_two_ranks(self, place: Path) -> None:
        """They train together: each has a log, and rank 0 writes the model."""
        done = self.run(place)
        assert done.returncode == 0, done.stdout + done.stderr
        logs = [path.name for path in sorted(place.glob("log*"))]
        assert logs == ["log", "log.rank1"], f"the ranks did not train together: {logs}\n{done.stderr}"
        assert (place / "model" / "net.dnn").is_file()

    @pytest.mark.slow
    def test_an_error(self, place: Path) -> None:
        """The command fails, and the message of the ranks is the last thing on the console."""
        (place / "data.txt").write_text("|features 1 2 |labels 0 nonsense\n", encoding="utf-8")
        done = self.run(place)
        assert done.returncode not in (0, None), "the ranks have failed, and the command has not"
        assert "data.txt:1" in done.stderr, f"nothing says what was wrong:\n{done.stderr}"
        assert "Traceback" not in done.stderr.rpartition("failed first")[2]
