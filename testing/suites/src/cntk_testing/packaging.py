"""The contract of a wheel: it is found, loads, is quick to import, and has type information.

A plugin's test file names its wheel and its kind::

    class TestPackaging(PackagingContract):
        distribution = "cntk-reader-mnist"
        kind = "reader"

The wheel must be installed (``pip install -e .`` does).
"""

from __future__ import annotations

import inspect
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError
from importlib.metadata import distribution as find_distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from cntk_core.contract.action import Action
from cntk_core.contract.builder import NetworkBuilder
from cntk_core.contract.component import Component
from cntk_core.contract.dataset import Dataset
from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.initializer import ParameterInitializer
from cntk_core.contract.learner import Learner
from cntk_core.contract.model_format import ModelFormat
from cntk_core.contract.parallel import Communicator, GradientAggregation, Parallelizer, RankLauncher
from cntk_core.contract.reader import DataReader
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.contract.verb import Verb
from cntk_core.contract.writer import DataWriter
from cntk_core.ops.language.op import Op
from cntk_core.plugins.third_party_ops import ops_of
from cntk_testing.contract import Contract, check_component
from cntk_testing.fresh_imports import FreshImportError, modules_after_importing

KINDS: dict[str, type[Component]] = {
    "engine": ExecutionEngine,
    "builder": NetworkBuilder,
    "reader": DataReader,
    "writer": DataWriter,
    "learner": Learner,
    "parallelizer": Parallelizer,
    "aggregation": GradientAggregation,
    "communicator": Communicator,
    "action": Action,
    "verb": Verb,
    "model_format": ModelFormat,
    "initializer": ParameterInitializer,
    "schedule": EpochSchedule,
    "dataset": Dataset,
    "launcher": RankLauncher,
}
"""Kind to the base of its classes. A wheel of kind ``op`` offers ops."""

HEAVY = ("cudnn", "cupy", "jax", "matplotlib", "mpi4py", "numba", "ray", "sklearn", "torch")
"""Libraries that a module imports inside functions, so that commands that do not need them start quickly."""


class WheelContract(Contract):
    """Tests of any wheel for pytest, also of one that offers nothing by name: subclass it with ``distribution``.

    Attributes:
        distribution: name of the wheel.
        module: the module to import; by default the wheel's name with underscores. Where there is none, as in a wheel
            that only brings others, nothing is imported.
        may_import: heavy libraries that the module imports at once, because it is nothing without them.
    """

    distribution: ClassVar[str]
    module: ClassVar[str] = ""
    may_import: ClassVar[frozenset[str]] = frozenset()

    def module_name(self) -> str:
        """Name of the wheel's module."""
        return self.module or self.distribution.replace("-", "_")

    def installed(self) -> Distribution:
        """Return the installed wheel; skip the test where the module is imported from its sources alone."""
        try:
            return find_distribution(self.distribution)
        except PackageNotFoundError:
            assert find_spec(self.module_name()) is not None, (
                f"neither the wheel '{self.distribution}' nor the module '{self.module_name()}' is installed"
            )
            pytest.skip(f"'{self.distribution}' runs from its sources; pip install -e . makes it a wheel")

    def skip_without_module(self) -> None:
        """Skip a test of the module in a wheel that only brings others."""
        if find_spec(self.module_name()) is None and not any(
            file.suffix in (".py", ".pth") for file in self.installed().files or ()
        ):
            pytest.skip(f"'{self.distribution}' has no module")

    def test_what_it_offers_loads(self) -> None:
        """Every entry point for us loads, and is of its kind, and has a name once."""
        offers = [point for point in self.installed().entry_points if point.group.startswith("cntk.")]
        for point in offers:
            kind = point.group.removeprefix("cntk.").removesuffix("s")
            offer = point.load()
            if kind == "op" or kind in KINDS:
                check_offer(point.name, offer, kind)
        named = [(point.group, point.name) for point in offers]
        assert len(named) == len({*named}), f"'{self.distribution}' offers something twice: {named}"

    def test_import_is_quick(self) -> None:
        """Importing the module imports no heavy library that can wait."""
        self.skip_without_module()
        try:
            loaded = modules_after_importing(self.module_name())
        except FreshImportError as error:
            raise AssertionError(f"the module '{self.module_name()}' cannot be imported:\n{error}") from None
        early = sorted(loaded.intersection(HEAVY) - self.may_import)
        assert not early, f"importing '{self.module_name()}' imports {', '.join(early)}; import them inside functions"

    def test_type_information_is_shipped(self) -> None:
        """The module's folder has a file py.typed."""
        self.skip_without_module()
        spec = find_spec(self.module_name())
        assert spec is not None, f"there is no module '{self.module_name()}'"
        if spec.submodule_search_locations is None:
            pytest.skip("a single module cannot have py.typed")
        folders = [Path(folder) for folder in spec.submodule_search_locations]
        assert any((folder / "py.typed").is_file() for folder in folders), f"'{self.module_name()}' has no py.typed"


class PackagingContract(WheelContract):
    """Tests of a wheel that offers something of a kind: subclass it with ``distribution`` and ``kind``.

    Attributes:
        kind: what it offers: a key of :data:`KINDS`, or ``op``.
    """

    kind: ClassVar[str]

    def entry_points(self) -> list[EntryPoint]:
        """The entry points of the wheel's kind."""
        return list(self.installed().entry_points.select(group=f"cntk.{self.kind}s"))

    def test_entry_points_load(self) -> None:
        """The wheel offers something of its kind, and what it offers can be made."""
        assert self.kind == "op" or self.kind in KINDS, f"unknown kind '{self.kind}'; kinds: op, {', '.join(KINDS)}"
        found = self.entry_points()
        assert found, f"'{self.distribution}' has no entry point in the group cntk.{self.kind}s"
        for entry in found:
            check_offer(entry.name, entry.load(), self.kind)


def check_offer(name: str, offer: Any, kind: str) -> None:
    """Check that what an entry point offers is of its kind and complete."""
    if kind == "op":
        found = isinstance(offer, Op) or (isinstance(offer, ModuleType) and ops_of(offer))
        assert found, f"'{name}' is neither an op nor a module with ops: {offer!r}"
        return
    base = KINDS[kind]
    is_class = isinstance(offer, type) and issubclass(offer, base)
    assert is_class, f"'{name}' is no {base.__name__}: {offer!r}"
    abstract = sorted(getattr(offer, "__abstractmethods__", ()))
    assert not inspect.isabstract(offer), f"{offer.__name__} lacks {', '.join(abstract)}"
    check_component(offer)
