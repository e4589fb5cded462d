"""The pages about plugins say what the code does."""

from __future__ import annotations

import inspect
import re

import attrs
import pytest

from cntk_core.ops.language.traits import Traits
from cntk_core.plugins import addresses, discovery, importing, listening, manager, specs
from cntk_core.plugins.manager import PluginManager, hook_names
from cntk_core.plugins.registry import KINDS
from cntk_kit_recipes.authoring.report import STATES
from cntk_kit_recipes.authoring.scaffold import TEMPLATES
from cntk_testing import check_op
from cntk_testing.learner_contract import LearnerContract


@pytest.fixture
def page(pytestconfig):
    return (pytestconfig.rootpath / "docs/plugins.md").read_text(encoding="utf-8")


def test_every_hook_with_its_arguments(page):
    listed = re.findall(r"^\| `(cntk_\w+\(.*?\))`", page, re.MULTILINE)
    assert listed == [
        f"{name}({', '.join(inspect.signature(getattr(specs, name)).parameters)})" for name in hook_names()
    ]


def test_every_state_group_and_switch(page):
    assert re.findall(r"^\| ([a-z ]+) \|", page.split("## Entry")[0], re.MULTILINE)[1:] == list(STATES)
    groups = [kind.group for kind in KINDS] + [addresses.GROUP, "cntk.ops", "cntk.kernels", "cntk.hooks"]
    assert re.findall(r"^\| `(cntk\.\w+)` \|", page, re.MULTILINE) == groups
    switches = [discovery.SWITCH, importing.TIMEOUT_SWITCH, listening.TRACE_SWITCH, manager.STRICT_SWITCH]
    assert re.findall(r"^\| `(CNTK_\w+)` \|", page, re.MULTILINE) == switches


def test_every_trait_and_the_examples(pytestconfig, tmp_path):
    text = (pytestconfig.rootpath / "docs/op-traits.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [field.name for field in attrs.fields(Traits)]
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        (tmp_path / f"p{number}.py").write_text(block, encoding="utf-8")
    registry = PluginManager([str(tmp_path / "p0.py"), str(tmp_path / "p1.py")], discover=False).registry
    check_op(registry.ops.find("ndl", "smoothabs"), shapes=((4,),))
    assert [(each.engine, each.op.name) for _, each in registry.kernels.added()] == [("xla", "Pass")]


class TestTutorial:
    @pytest.fixture
    def blocks(self, pytestconfig):
        text = (pytestconfig.rootpath / "docs/writing-a-plugin.md").read_text(encoding="utf-8")
        return re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    def test_the_examples_work_as_plugin_files(self, blocks, tmp_path):
        for number, block in enumerate(blocks[:4]):
            (tmp_path / f"p{number}.py").write_text(block, encoding="utf-8")
        registry = PluginManager([str(tmp_path / f"p{number}.py") for number in range(4)], discover=False).registry
        assert registry.ops.find("ndl", "squash").name == "Squash"
        assert registry.learners.get("SignDescent").slots[0].name == "smoothed"
        learner = registry.learners.get("NormalizedDescent")()
        LearnerContract().test_rule_is_elementwise(learner)
        LearnerContract().test_rule_can_be_traced(learner)
        (tmp_path / "rows.csv").write_text("1,2\n3,4\n5,6\n", encoding="utf-8")
        self.read(registry.readers.get("TableReader"), tmp_path / "rows.csv")

    @staticmethod
    def read(reader_class, file):
        from cntk_core.api import EpochSpec, ReaderContext

        reader = reader_class(reader_class.options(file=str(file), dim=2), ReaderContext())
        rows = [row for batch in reader.minibatches(EpochSpec()) for row in batch.streams["x"].data.tolist()]
        reader.close()
        assert sorted(rows) == [[1, 2], [3, 4], [5, 6]]

    def test_they_are_as_short_as_promised(self, blocks):
        def statements(block, first):
            return len([line for line in block[block.index(first) :].splitlines() if line.strip()])

        assert statements(blocks[0], "@elementwise_op") == 3
        assert statements(blocks[1], "    slots") <= 6
        assert statements(blocks[3], "@options") <= 16

    def test_every_kind_is_named(self, pytestconfig):
        text = (pytestconfig.rootpath / "docs/writing-a-plugin.md").read_text(encoding="utf-8")
        assert all(kind in text for kind in TEMPLATES)
