"""The verbs keep their contract, on a small recipe and its model."""

from __future__ import annotations

from pathlib import Path

from cntk_tool_inspect.verbs.check_data import CheckData
from cntk_tool_inspect.verbs.config import ShowConfig
from cntk_tool_inspect.verbs.convert import Convert
from cntk_tool_inspect.verbs.convert_data import ConvertData
from cntk_tool_inspect.verbs.dump import Dump
from cntk_tool_inspect.verbs.explain import Explain
from cntk_tool_inspect.verbs.plot import Plot

from cntk_kit_recipes.cli import main
from cntk_testing import PackagingContract, VerbContract
from cntk_testing.recipes import inside
from cntk_testing.small_recipe import DATA, RECIPE


class OnARecipe(VerbContract):
    """What the verbs look at: a recipe, its data, its model."""

    __test__ = False
    trains = False

    def prepare(self, folder: Path) -> None:
        (folder / "r.cntk").write_text(RECIPE, encoding="utf-8")
        (folder / "train.ctf").write_text(DATA, encoding="utf-8")
        with inside(folder):
            assert not self.trains or main(["train", "r.cntk"]) == 0


class TestCheckData(OnARecipe):
    __test__ = True
    verb_class = CheckData
    command_lines = (("r.cntk",), ("r.cntk", "--section", "Train"))


class TestConfig(OnARecipe):
    __test__ = True
    verb_class = ShowConfig
    command_lines = (
        ("show", "r.cntk"),
        ("show", "r.cntk", "--section", "Train:SGD", "--resolved"),
        ("check", "r.cntk"),
    )


class TestExplain(OnARecipe):
    __test__ = True
    verb_class = Explain
    command_lines = (("r.cntk",), ("r.cntk", "--frames", "7"))


class TestConvertData(OnARecipe):
    __test__ = True
    verb_class = ConvertData
    command_lines = (("r.cntk", "-o", "train.cbf"),)


class TestConvert(OnARecipe):
    __test__ = True
    trains = True
    verb_class = Convert
    command_lines = (("run/net.dnn", "-o", "new.dnn"), ("run/net.dnn", "-o", "new.dnn", "--precision", "float"))


class TestDump(OnARecipe):
    __test__ = True
    trains = True
    verb_class = Dump
    command_lines = (("run/net.dnn",), ("run/net.dnn", "--node", "W", "-o", "w.txt"))


class TestPlot(OnARecipe):
    __test__ = True
    trains = True
    verb_class = Plot
    command_lines = (("run/net.dnn", "-o", "net.svg"), ("r.cntk", "-o", "net.dot"))


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-inspect"
    kind = "verb"
