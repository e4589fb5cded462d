r"""The contract of actions.

A plugin's test file subclasses :class:`ActionContract`::

    class TestCount(ActionContract):
        action_class = CountAction
        recipe = 'command = Count\nCount = [ action = "contract" ; modelPath = "m.dnn" ]'

        def prepare(self, folder: Path) -> None:
            ...  # write what the recipe needs

        def verify(self, folder: Path, log: str) -> None:
            assert "3 nodes" in log
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from cntk_core.contract.action import Action
from cntk_core.errors import CntkError, Problems
from cntk_core.network.model_file import save_model
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing.contract import Contract, check_component
from cntk_testing.networks import classifier

NAME = "contract"
"""The word by which the recipes of a suite call the action."""


class ActionContract(Contract):
    """Tests of an action for pytest: subclass it.

    Attributes:
        action_class: what is tested.
        recipe: a recipe that runs the action as ``action = "contract"``.
        broken_recipe: one that the action refuses before anything runs; empty if there is none.
    """

    action_class: ClassVar[type[Action]]
    recipe: ClassVar[str]
    broken_recipe: ClassVar[str] = ""

    def prepare(self, folder: Path) -> None:
        """Write the files that the recipes need; the recipes run in this folder."""

    @staticmethod
    def write_model(path: Path) -> None:
        """Write a small classifier as a model file, for :meth:`prepare`."""
        save_model(classifier("float32").network, path)

    def verify(self, folder: Path, log: str) -> None:
        """Assert what the action has done; ``log`` is what it wrote."""

    def test_component(self) -> None:
        """It is a complete class that says for which interface it was written, and is made without arguments."""
        check_component(self.action_class)
        self.action_class()

    def test_the_recipe_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The recipe runs from the beginning to the end, twice in the same folder."""
        self.prepare(tmp_path)
        for _ in range(2):
            self.verify(tmp_path, self._run(self.recipe, tmp_path, monkeypatch))

    def test_a_broken_section_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is wrong with a section is found before anything runs, and says where it stands."""
        if not self.broken_recipe:
            pytest.skip("the suite has no broken_recipe")
        self.prepare(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises((CntkError, Problems)) as caught:
            self._run(self.broken_recipe, tmp_path, monkeypatch)
        errors = caught.value.errors if isinstance(caught.value, Problems) else (caught.value,)
        lost = [str(error) for error in errors if error.where is None]
        assert not lost, f"the error does not say where in the recipe it is (where=...): {lost[0]}"
        made = [path.name for path in sorted(tmp_path.rglob("*")) if path not in before]
        written = [name for name in made if name not in (_RECIPE, _LOG)]
        assert not written, f"check() wrote files: {', '.join(written)}"

    def _run(self, recipe: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        (folder / _RECIPE).write_text(recipe, encoding="utf-8")
        (folder / _LOG).unlink(missing_ok=True)
        monkeypatch.chdir(folder)
        log = Log(quiet=True)
        try:
            run_recipe([f"configFile={_RECIPE}", f"stderr={_LOG}"], log, listeners=[_Offer(self.action_class)])
        finally:
            log.close()
        return (folder / _LOG).read_text(encoding="utf-8")


_RECIPE, _LOG = "contract.cntk", "contract.log"


class _Offer:
    """Offers one class as ``contract``."""

    def __init__(self, action_class: type[Action]) -> None:
        self._class = action_class

    @hookimpl
    def cntk_register(self, registry: Registry) -> Any:
        """Offer it."""
        registry.actions.add(NAME, self._class)
