"""``cntk plugins check``: run the contract suite of its kind on an installed plugin."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import attrs

from cntk_core.contract.component import Unavailable
from cntk_core.errors import MissingPluginError, PluginError, PluginUnavailableError, UsageError, did_you_mean, nearest
from cntk_core.plugins.known import known
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.offer import ComponentOffer, HooksOffer, Offer, same_wheel
from cntk_core.plugins.registry import KINDS, Registry
from cntk_core.plugins.third_party_ops import OpsOffer

SUITES = {
    "engine": ("EngineContract",),
    "learner": ("LearnerContract",),
    "parallelizer": ("ParallelizerContract",),
    "aggregation": ("AggregationContract",),
    "reader": ("ReaderContract", "ReaderRecipe"),
    "writer": ("WriterContract",),
    "builder": ("BuilderContract",),
    "communicator": ("CommunicatorContract", "CommunicatorRecipe"),
    "action": ("ActionContract",),
    "verb": ("VerbContract",),
    "model_format": ("ModelFormatContract",),
    "initializer": ("InitializerContract",),
    "schedule": ("ScheduleContract",),
    "dataset": ("DatasetContract",),
    "launcher": ("LauncherContract",),
}
"""The contracts of a kind. What is run is the classes of a plugin's own tests that derive from them."""

CLASS_ALONE = ("engine", "learner", "parallelizer", "aggregation")
"""Kinds whose contract needs nothing but the plugin's class: it is run also where a plugin has no tests of its own."""

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
        left_out: the contract that needs data of the plugin's own, and why it was not run.
    """

    title: str
    passed: bool
    output: str
    tested: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def outcome(self) -> str:
        """What came of it: "keeps its contract" only where that contract was run."""
        rest = f"; {self.left_out}" if self.left_out else ""
        if not self.tested:
            return f"can be loaded, and nothing else was tested{rest}"
        *most, last = self.tested
        what = f"{', '.join(most)} and {last}" if most else last
        if not self.passed:
            return f"does not keep its contract ({what}){rest}"
        only_wheel = self.tested[-1].startswith("its wheel")
        return f"passes the tests of {what}{rest}" if only_wheel or rest else f"keeps its contract ({what})"


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
    with TemporaryDirectory(prefix="cntk-check-") as folder:
        own, left_out = _run_own_tests(offer, folder) if _key(offer) in SUITES else (Own(), "")
        alone = bool(left_out) and own.passed and _key(offer) in CLASS_ALONE
        tested, code, output = tests_of(offer, alone), 0, ""
        if tested:
            Path(folder, "test_plugin.py").write_text(contract_module(offer, alone), encoding="utf-8")
            code, output = _run_pytest(["--rootdir", folder, folder], folder)
    passed = code == 0 and own.passed
    return CheckResult(offer.title, passed, output + own.output, (*tested, *own.tested), "" if alone else left_out)


def _run_pytest(arguments: Sequence[str], folder: str, **variables: str) -> tuple[int, str]:
    """Return the exit status of pytest, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def tests_of(offer: Offer[Any], alone: bool) -> tuple[str, ...]:
    """Return what is tested of a plugin without its own tests, for people; ``alone``: its contract, too."""
    if isinstance(offer, HooksOffer):
        return ("its hooks' names and arguments",)
    tested = []
    if offer.source.is_wheel:
        tested.append(f"its wheel {offer.source.name}")
    elif isinstance(offer, ComponentOffer):
        tested.append("its class")
    if isinstance(offer, OpsOffer):
        tested.append("OpContract")
    elif alone and _key(offer) in CLASS_ALONE:
        tested.append(SUITES[_key(offer)][0])
    return tuple(tested)


@attrs.frozen
class Own:
    """What came of a plugin's own tests: the contracts that were run, and pytest's part."""

    tested: tuple[str, ...] = ()
    passed: bool = True
    output: str = ""


def _run_own_tests(offer: Offer[Any], folder: str) -> tuple[Own, str]:
    """Run the classes of a plugin's own tests that test it by the contract of its kind.

    Returns:
        what came of it, and why the contract was not run; empty if it was.
    """
    suites = SUITES[_key(offer)]
    where = own_tests(offer)
    if where is None:
        return Own(), f"its {suites[0]} was not run: {_to_add(offer)}"
    component = offer.get()
    others = {"OpContract", *(name for names in SUITES.values() for name in names)}
    outcome = Path(folder, "outcome.json")
    wanted = {
        "suites": suites,
        "others": sorted(others.difference(suites, ("ReaderRecipe", "CommunicatorRecipe"))),
        "name": offer.name,
        "component": f"{Path(inspect.getfile(component)).resolve()}:{component.__qualname__}",
        "outcome": str(outcome),
    }
    files = [where] if where.is_file() else [*where.rglob("test_*.py")]
    named = (*suites, "RecipeContract")
    asked = sorted(str(file) for file in files if any(name in file.read_text(encoding="utf-8") for name in named))
    code, output = _NO_TESTS, ""
    if asked:
        code, output = _run_pytest(["-p", "cntk_testing.checking", *asked], folder, CNTK_CHECK=json.dumps(wanted))
    told = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {}
    found = told.get("passed", {})
    passed = code in (0, _NO_TESTS) or (code == _FAILED and not told["failed"])
    own = Own((f"{' and '.join(found)} of its own tests",) if found else (), passed, output)
    if not any(name in found for name in suites):
        return own, f"its {suites[0]} was not run: no class of {where} gives it this plugin: {_to_add(offer)}"
    return own, ""


_FAILED, _NO_TESTS = 1, 5
"""Exit statuses of pytest: a test has failed, none was found."""


def own_tests(offer: Offer[Any]) -> Path | None:
    """Return where a plugin's own tests lie; None if they are not here.

    They are those beside the sources of a wheel that was installed with ``pip install --editable``; those that a wheel
    brings in the folder ``contract/tests`` of its package; beside a plugin file ``mine.py``, ``test_mine.py``.
    """
    if not offer.source.is_wheel:
        file = Path(offer.source.name).resolve()
        beside = file.with_name(f"test_{file.stem}.py")
        return beside if beside.is_file() else None
    told = distribution(offer.source.name).read_text("direct_url.json")
    found = json.loads(told) if told else {}
    places = [Path(url2pathname(urlsplit(found["url"]).path))] if found.get("dir_info", {}).get("editable") else []
    package = Path(inspect.getfile(import_module(offer.target.partition(":")[0].partition(".")[0]))).parent
    return next((tests for place in (*places, package / "contract") if (tests := place / "tests").is_dir()), None)


def _to_add(offer: Offer[Any]) -> str:
    """Return what to do for the contract to be run."""
    suite = SUITES[_key(offer)][0]
    if not offer.source.is_wheel:
        stem = Path(offer.source.name).stem
        return f"write test_{stem}.py beside it, with a class of {suite} (docs/testing-plugins.md)"
    return (
        f"give its tests a class of {suite}, and let the wheel bring them as contract/tests or install it with "
        "pip install --editable (docs/testing-plugins.md)"
    )


def contract_module(offer: Offer[Any], alone: bool = True) -> str:
    """Return the text of the test module for a plugin; ``alone``: with the contract of a kind that needs the class."""
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
    elif alone and _key(offer) in CLASS_ALONE:
        lines += [f"class TestContract(testing.{SUITES[_key(offer)][0]}):", f"    {offer.word}_class = PLUGIN"]
    return "\n".join(lines) + "\n"
