"""``cntk plugins check``: run the contract suite of its kind on an installed plugin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from cntk_core.contract.component import Unavailable
from cntk_core.errors import MissingPluginError, PluginError, PluginUnavailableError, UsageError, did_you_mean, nearest
from cntk_core.plugins.known import known
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.offer import ComponentOffer, HooksOffer, Offer, same_wheel
from cntk_core.plugins.registry import KINDS, Registry
from cntk_core.plugins.third_party_ops import OpsOffer

CONTRACTS = {
    "engine": "EngineContract",
    "learner": "LearnerContract",
    "parallelizer": "ParallelizerContract",
    "aggregation": "AggregationContract",
}
"""Contracts that need nothing but the plugin's class."""

OWN_DATA = {
    "reader": "ReaderContract",
    "writer": "WriterContract",
    "builder": "BuilderContract",
    "communicator": "CommunicatorContract",
    "action": "ActionContract",
    "verb": "VerbContract",
    "model_format": "ModelFormatContract",
    "initializer": "InitializerContract",
    "schedule": "ScheduleContract",
    "dataset": "DatasetContract",
}
"""Contracts that need data of the plugin's own: they run in its own tests, and are not run here."""

KIND_WORDS = (*(kind.key for kind in KINDS), "ops", "kernels", "hooks")
"""What may stand before the colon of ``KIND:NAME``."""


@attrs.frozen
class CheckResult:
    """What came of a check.

    Attributes:
        title: what was checked.
        passed: whether all tests passed.
        output: what pytest printed.
        tested: what the tests were about, for people; the contract of its kind, its wheel.
        left_out: the contract that needs data of the plugin's own and was not run, if there is one.
    """

    title: str
    passed: bool
    output: str
    tested: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def outcome(self) -> str:
        """What came of it: "keeps its contract" only where that contract was run."""
        rest = f"; its {self.left_out} needs data and was not run: it belongs in the plugin's own tests"
        if not self.tested:
            return f"can be loaded, and nothing else was tested{rest if self.left_out else ''}"
        what = " and ".join(self.tested)
        if not self.passed:
            return f"does not keep its contract ({what})"
        if self.left_out:
            return f"passes the tests of {what}{rest}"
        only_wheel = self.tested[-1].startswith("its wheel")
        return f"passes the tests of {what}" if only_wheel else f"keeps its contract ({what})"


def check_plugin(name: str, kind: str | None = None, plugin_files: Sequence[str] = ()) -> int:
    """Check everything that ``name`` means and print the outcome; return 0 if all is well, else 1.

    Args:
        name: what a recipe writes, ``KIND:NAME``, or a wheel.
        kind: one of :data:`KIND_WORDS`, if the name alone could mean several things.
        plugin_files: one-off plugins; they are tested as installed ones are, but for their wheel, which they have not.

    Raises:
        PluginError: there is no such plugin, it is broken, or it cannot run here.
    """
    passed = True
    for offer in find_offers(PluginManager(plugin_files, load_hooks=False), name, kind):
        result = run_contract(offer)
        print(f"{result.output}{result.title} {result.outcome}")
        passed = passed and result.passed
    return 0 if passed else 1


_SINGLE = {"op": "ops", "kernel": "kernels", "hook": "hooks"}


def kind_of(word: str) -> str:
    """Return the kind that a word means, one of :data:`KIND_WORDS`.

    Raises:
        UsageError: there is no such kind.
    """
    kind = _SINGLE.get(word, word.replace(" ", "_").replace("-", "_"))
    if kind not in KIND_WORDS:
        raise UsageError(
            f"there is no kind of plugin '{word}'{did_you_mean(word, KIND_WORDS)}",
            hint=f"Kinds: {', '.join(KIND_WORDS)}",
        )
    return kind


def find_offers(manager: PluginManager, name: str, kind: str | None = None) -> list[Offer[Any]]:
    """Return what a name means: offers of installed wheels, not loaded yet.

    Raises:
        UsageError: there is no such kind.
        MissingPluginError: nothing is installed that the name could mean.
    """
    prefix, colon, word = name.partition(":")
    if kind is None and colon and prefix in (*KIND_WORDS, *_SINGLE):
        kind, name = prefix, word
    kind = None if kind is None else kind_of(kind)
    registry = manager.registry
    offers: list[Offer[Any]] = [offer for table in registry.tables for offer in table.offers()]
    offers += [*registry.ops.offers(), *_ops_of_files(registry), *registry.kernels.offers(), *manager.hooks_offers]
    offers = [offer for offer in offers if kind in (None, _key(offer))]
    qualifier, _, bare = name.rpartition(":")
    found = [offer for offer in offers if same_wheel(offer.source.name, name)] or [
        offer
        for offer in offers
        if offer.name.casefold() == bare.casefold() and (not qualifier or offer.source.answers_to(qualifier))
    ]
    if found:
        return found
    for table in registry.tables:
        if table.kind.key == kind or (kind is None and name.casefold() in known(table.kind.group)):
            table.find(name)
    guess = nearest(name, [offer.name for offer in offers])
    raise MissingPluginError(
        f"no plugin named '{name}' is installed" + (f"; did you mean '{guess}'?" if guess else ""),
        hint="cntk plugins lists what there is.",
    )


def _key(offer: Offer[Any]) -> str:
    return offer.kind.key if isinstance(offer, ComponentOffer) else offer.word


def _ops_of_files(registry: Registry) -> list[OpsOffer]:
    """Return an offer for each op of the plugin files."""
    found = [(source, op) for source, op in registry.ops.added() if not source.is_wheel]
    return [OpsOffer("ops", op.name, source, f"{op.name}", lambda op=op: op) for source, op in found]  # type: ignore[misc]


def run_contract(offer: Offer[Any]) -> CheckResult:
    """Run the tests for one plugin in a process of their own.

    Raises:
        PluginError: it cannot be loaded or cannot run here, or pytest is not installed.
    """
    if find_spec("pytest") is None:
        raise PluginError("plugins are checked with pytest, which is not installed", hint="pip install pytest")
    offer.get()
    if isinstance(offer, ComponentOffer):
        answer = offer.availability()
        if isinstance(answer, Unavailable):
            raise PluginUnavailableError(
                f"{offer.title} is installed but cannot run here: {answer.reason}", hint=answer.hint or None
            )
    tested, left_out = tests_of(offer)
    if not tested:
        return CheckResult(offer.title, True, "", (), left_out)
    with TemporaryDirectory(prefix="cntk-check-") as folder:
        Path(folder, "test_plugin.py").write_text(contract_module(offer), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return CheckResult(offer.title, done.returncode == 0, done.stdout + done.stderr, tested, left_out)


def tests_of(offer: Offer[Any]) -> tuple[tuple[str, ...], str]:
    """Return what is tested of a plugin, for people, and the contract that is left out since it needs data."""
    if isinstance(offer, HooksOffer):
        return ("its hooks' names and arguments",), ""
    tested = []
    if offer.source.is_wheel:
        tested.append(f"its wheel {offer.source.name}")
    elif isinstance(offer, ComponentOffer):
        tested.append("its class")
    contract = "OpContract" if isinstance(offer, OpsOffer) else CONTRACTS.get(offer.word)
    if contract is not None:
        tested.append(contract)
    return tuple(tested), OWN_DATA.get(_key(offer), "")


def contract_module(offer: Offer[Any]) -> str:
    """Return the text of the test module for a plugin."""
    load = f"EntryPoint({offer.name!r}, {offer.target!r}, 'cntk').load()"
    if not offer.source.is_wheel:
        module, attribute = f"load_file({str(Path(offer.source.name).resolve())!r})", offer.target.partition(":")[2]
        load = f"attrgetter({attribute!r})({module})"
        if isinstance(offer, OpsOffer):
            load = f"next(op for op in ops_of({module}) if op.name == {offer.name!r})"
    lines = [
        "from importlib.metadata import EntryPoint",
        "from operator import attrgetter",
        "import cntk_testing as testing",
        "from cntk_core.api import API_VERSION, Op",
        "from cntk_core.plugins.files import load_file",
        "from cntk_core.plugins.manager import PluginManager",
        "from cntk_core.plugins.third_party_ops import ops_of",
        "from cntk_testing.packaging import check_offer",
        f"PLUGIN = {load}",
    ]
    if isinstance(offer, HooksOffer):
        lines += [
            "def test_hooks():",
            "    listener = PLUGIN() if isinstance(PLUGIN, type) else PLUGIN",
            "    PluginManager(listeners=[listener], discover=False)",
        ]
        return "\n".join(lines) + "\n"
    if isinstance(offer, ComponentOffer) and not offer.source.is_wheel:
        # A class of a file need not say for which interface it was written: it is for this one.
        lines += [
            "if not hasattr(PLUGIN, 'requires_api'):",
            "    PLUGIN.requires_api = API_VERSION",
            "def test_class():",
            f"    check_offer({offer.name!r}, PLUGIN, {_key(offer)!r})",
        ]
    if offer.source.is_wheel:
        lines += [
            "class TestWheel(testing.PackagingContract):",
            f"    distribution = {offer.source.name!r}",
            f"    kind = {_key(offer).removesuffix('s')!r}",
            f"    module = {offer.target.partition(':')[0]!r}",
        ]
    if isinstance(offer, OpsOffer):
        lines += [
            "ops = (PLUGIN,) if isinstance(PLUGIN, Op) else ops_of(PLUGIN)",
            "for number, found in enumerate(ops):",
            "    shapes = ((4,),) * max(found.arity[0], 1)",
            "    body = {'op': found, 'examples': (testing.OpExample(shapes),)}",
            "    globals()[f'Test{number}'] = type(f'Test{found.name}', (testing.OpContract,), body)",
        ]
    elif offer.word in CONTRACTS:
        lines += [f"class TestContract(testing.{CONTRACTS[offer.word]}):", f"    {offer.word}_class = PLUGIN"]
    return "\n".join(lines) + "\n"
