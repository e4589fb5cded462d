"""The contract of wheels, on wheels made here."""

from __future__ import annotations

from types import ModuleType

import attrs
import pytest

from cntk_core.contract.learner import Learner
from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.table import core_ops
from cntk_testing.packaging import PackagingContract, check_offer

LEARNER = """
from cntk_core.api import Learner

class Still(Learner):
    requires_api = "1.0"

    def scalars(self, context):
        return {}

    def rule(self, m, value, gradient, slots, scalars):
        return value, {}
"""


@attrs.define
class Wheel:
    """A folder on the path with a module and its metadata."""

    folder: object

    def write(self, source=LEARNER, entry="still = cntk_learner_still:Still", *, typed=True, group="cntk.learners"):
        module = self.folder / "cntk_learner_still"
        module.mkdir()
        (module / "__init__.py").write_text(source, encoding="utf-8")
        if typed:
            (module / "py.typed").touch()
        info = self.folder / "cntk_learner_still-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cntk-learner-still\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


class Still(PackagingContract):
    distribution = "cntk-learner-still"
    kind = "learner"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    import os
    import sys

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.delitem(sys.modules, "cntk_learner_still", raising=False)
    yield Wheel(tmp_path)
    sys.modules.pop("cntk_learner_still", None)


def error_of(test):
    with pytest.raises(AssertionError) as error:
        getattr(Still(), test)()
    return str(error.value)


def test_a_good_wheel(wheel):
    wheel.write()
    Still().test_entry_points_load()
    Still().test_import_is_quick()
    Still().test_type_information_is_shipped()


def test_heavy_imports_are_noticed(wheel):
    (wheel.folder / "torch.py").touch()
    wheel.write("import torch\n" + LEARNER, typed=False)
    found = error_of("test_import_is_quick")
    assert found.startswith("importing 'cntk_learner_still' imports torch; import them inside functions")
    type("Allowed", (Still,), {"may_import": frozenset({"torch"})})().test_import_is_quick()
    assert error_of("test_type_information_is_shipped").startswith("'cntk_learner_still' has no py.typed")


def test_a_module_that_cannot_be_imported_is_noticed(wheel):
    wheel.write("import no_such_module_here\n")
    found = error_of("test_import_is_quick")
    assert found.startswith("the module 'cntk_learner_still' cannot be imported:\nTraceback (most recent call last):\n")
    assert found.endswith("ModuleNotFoundError: No module named 'no_such_module_here'\n")


def test_a_module_that_prints_or_ends_its_process_is_noticed(wheel):
    wheel.write("import os\nprint('{}', flush=True)\n" + LEARNER)
    Still().test_import_is_quick()
    (wheel.folder / "cntk_learner_still/__init__.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")
    found = error_of("test_import_is_quick")
    assert found == "the module 'cntk_learner_still' cannot be imported:\nthe process ended with 3"


def test_entry_points_of_another_group_are_noticed(wheel):
    wheel.write(group="cntk.lerners")
    found = error_of("test_entry_points_load")
    assert found.startswith("'cntk-learner-still' has no entry point in the group cntk.learners")


def test_a_wheel_that_is_not_there():
    found = error_of("test_entry_points_load")
    assert found.startswith("neither the wheel 'cntk-learner-still' nor the module 'cntk_learner_still' is installed")


def test_a_wheel_of_an_unknown_kind():
    with pytest.raises(AssertionError, match="unknown kind 'lerner'; kinds: op, engine, builder"):
        type("Wrong", (Still,), {"kind": "lerner"})().test_entry_points_load()


def test_offers():
    times = core_ops().find("", "Times")
    module = ModuleType("ops")
    module.square = elementwise_op("Square", gradient=lambda m, a, g, y, x: 2.0 * g * x)(lambda m, a, x: x * x)
    check_offer("ops", module, "op")
    check_offer("op", times, "op")
    with pytest.raises(AssertionError, match="'x' is neither an op nor a module with ops"):
        check_offer("x", Learner, "op")
    with pytest.raises(AssertionError, match="'x' is no DataReader"):
        check_offer("x", Learner, "reader")
    with pytest.raises(AssertionError, match="Learner lacks rule, scalars"):
        check_offer("x", Learner, "learner")
