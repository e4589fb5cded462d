"""The plugin manager of one run: discovery, one-off files, hooks, and who listens to them. There is no global one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import pluggy

from cntk_core.contract.component import Unavailable
from cntk_core.contract.engine import ExecutionEngine
from cntk_core.errors import BrokenPluginError, Location, PluginError, PluginUnavailableError, did_you_mean
from cntk_core.ops.language.op import Op, OpNames
from cntk_core.ops.table import core_op
from cntk_core.plugins import specs
from cntk_core.plugins.calling import HookCalls
from cntk_core.plugins.discovery import HOOKS_GROUP, OFF, CoreParts, Discovery, unwanted
from cntk_core.plugins.discovery import SWITCH as DISCOVERY_SWITCH
from cntk_core.plugins.files import add_file, listeners_of, load_file
from cntk_core.plugins.listening import Listener, first_answer, told_of_retired, trace_line, tracing, warn
from cntk_core.plugins.markers import PROJECT, hookimpl
from cntk_core.plugins.offer import CORE, HERE, HooksOffer, Source, at, last_line
from cntk_core.plugins.precedence import DISABLED, Rank
from cntk_core.plugins.registering import add_registered
from cntk_core.plugins.registry import Registry
from cntk_core.system.console import tell

STRICT_SWITCH = "CNTK_PLUGINS_STRICT"
"""Environment variable: with 1, broken hooks of an installed wheel end the run instead of giving a warning."""

AUTO: Final = "auto"

Device = int | Literal["auto", "cpu"]
"""What ``deviceId`` asks for: whatever there is, the processor, or the number of a device such as a GPU."""


def _computes_on(engine: type[ExecutionEngine], device: Device) -> bool:
    if device == AUTO:
        return True
    return not engine.devices() if device == "cpu" else device in engine.devices()


def _known(engine: type[ExecutionEngine]) -> str:
    devices = engine.devices()
    if not devices:
        return "It computes on the processor: give deviceId=cpu or deviceId=auto."
    return f"Its devices: {', '.join(map(str, devices))}; or give deviceId=auto."


class CoreAnswers:
    """The core's own answers to the hooks that decide something. They come last."""

    @hookimpl(trylast=True)
    def cntk_choose_engine(self, requested: str, available: tuple[str, ...]) -> str | None:
        """Take the first: they come with the highest priority first."""
        return next(iter(available), None)


class PluginManager:
    """Who takes part in a run.

    Args:
        plugin_files: what the command line says: Python files with components, ops and hooks (``--plugin``), or
            wheels that come before others; with ``-`` in front what is switched off (``--no-plugin``).
        listeners: objects with hooks, from the program itself. Their errors pass unchanged.
        watchers: the same, but what fails in them is reported and the run goes on without them.
        discover: look for installed wheels.
        load_hooks: load the hooks of installed wheels; everything else is loaded when it is asked for.
        report: takes a warning about a plugin that is left out.
        recipe: what the recipe says, in the same words.

    Attributes:
        registry: components and ops by name.
        hook: pluggy's callers, ``manager.hook.cntk_configure(config=...)``.
        hooks_offers: the hooks of installed wheels.
        hooks_of_files: what has hooks in plugin files, and in which.

    Raises:
        PluginError: a plugin file cannot be used.
    """

    def __init__(
        self,
        plugin_files: Sequence[str] = (),
        listeners: Sequence[object] = (),
        *,
        watchers: Sequence[object] = (),
        discover: bool = True,
        load_hooks: bool = True,
        report: Callable[[str], None] = warn,
        recipe: Sequence[str] = (),
    ) -> None:
        self.registry = Registry()
        self.hooks_offers: list[HooksOffer] = []
        self.hooks_of_files: list[tuple[object, Source]] = []
        self._report = report
        self._problems: dict[HooksOffer, PluginError] = {}
        self._sources: dict[int, Source] = {}
        self._registered: dict[HooksOffer, object] = {}
        self._files: set[Path] = set()
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(specs)
        self._trace = tracing()
        if self._trace:
            self._pluggy.add_hookcall_monitoring(lambda *_: None, self._after_call)
        self.hook = self._pluggy.hook
        self.hook.cntk_register.call_historic(kwargs={"registry": self.registry})
        self._calls = HookCalls(lambda plugin: self._sources.get(id(plugin), HERE), report, trace=self._trace)
        self._register(CoreAnswers(), CORE)
        self._register(CoreParts(), CORE)
        self._discovery = Discovery() if discover else None
        self.registry.preferences.switch_off(unwanted() if discover else (), f"{DISCOVERY_SWITCH}={OFF}")
        self._switch_off(plugin_files, "--no-plugin ")
        self._switch_off(recipe, f"the recipe's {DISABLED}=")
        if self._discovery is not None:
            self._discover(self._discovery, load_hooks)
        self._use(plugin_files, Rank.COMMAND_LINE)
        self._use(recipe, Rank.RECIPE)
        add_registered(self.registry, lambda hooks: self._register(hooks, HERE))
        for listener in listeners:
            self._register(listener, HERE)
        for watcher in watchers:
            self._register(watcher, Source(type(watcher).__name__))

    # -- components ---------------------------------------------------------------------------------------

    def engine(
        self, name: str, where: Location | None = None, *, device: Device = AUTO, device_where: Location | None = None
    ) -> type[ExecutionEngine]:
        """Return the class of an engine; ``auto`` is the best one that can run here.

        Args:
            name: its name.
            where: the place in the recipe, for messages.
            device: what it has to compute on: ``auto`` is whatever it likes, a number one of its devices.
            device_where: the place of the device in the recipe.

        Raises:
            PluginError: there is none of this name, it is broken, it cannot run here, or not on this device.
        """
        if name.casefold() != AUTO:
            found = self.registry.engines.get(name, where=where)
            if not _computes_on(found, device):
                raise PluginUnavailableError(
                    f"the engine '{name}' cannot compute on deviceId={device}", where=device_where, hint=_known(found)
                )
            return found
        usable = self.registry.engines.usable()
        if not usable:
            raise self._no_engine(where)
        classes = {each: self.registry.engines.get(each) for each in usable}
        fitting = [each for each in usable if _computes_on(classes[each], device)]
        if not fitting:
            raise self._no_device(device, usable, device_where)
        available = tuple(sorted(fitting, key=lambda each: -classes[each].priority))
        told = {"requested": name, "available": available}
        choice = first_answer(self.listeners("cntk_choose_engine"), told)
        return self.registry.engines.get(choice or available[0], where=where)

    def name_of_engine(self, engine: type[ExecutionEngine]) -> str:
        """Return the name under which an engine that was loaded is offered; empty if it is not."""
        offers = self.registry.engines.offers()
        return next((offer.name for offer in offers if offer.loaded and offer.outcome() is engine), "")

    def _no_device(self, device: Device, usable: Sequence[str], where: Location | None) -> PluginError:
        if device == "cpu":
            message = "deviceId=cpu asks for the processor, and no engine here computes on it"
            return PluginUnavailableError(message, where=where, hint="Install one that does, or give deviceId=auto.")
        numbers = sorted({n for name in usable for n in self.registry.engines.get(name).devices()})
        if numbers:
            message = f"there is no device {device} here"
            return PluginUnavailableError(message, where=where, hint=f"Devices: {', '.join(map(str, numbers))}.")
        reasons = [
            f"{offer.title}: {answer.reason}{answer.hint and f' {answer.hint}'}"
            for offer in self.registry.engines.offers()
            for answer in [offer.availability()]
            if isinstance(answer, Unavailable)
        ]
        return PluginUnavailableError(
            f"deviceId={device} asks for a GPU, and no engine can compute on one here",
            where=where,
            hint="\n".join(["Give deviceId=-1 (CPU) or deviceId=auto.", *dict.fromkeys(reasons)]),
        )

    def _no_engine(self, where: Location | None) -> PluginError:
        offers = self.registry.engines.offers()
        if not offers:
            return self.registry.engines.nothing(where)
        reasons = []
        for offer in offers:
            answer = offer.availability()
            if isinstance(answer, Unavailable):
                reasons.append(f"{offer.title} cannot run here: {answer.reason}{answer.hint and f' {answer.hint}'}")
            elif isinstance(answer, PluginError):
                reasons.append(answer.message)
        return PluginUnavailableError("no engine can run here", where=where, hint="\n".join(dict.fromkeys(reasons)))

    # -- hooks --------------------------------------------------------------------------------------------

    def listeners(self, hook_name: str) -> tuple[Listener, ...]:
        """Return who implements a hook, in the order in which they are asked; nothing if nobody does.

        Each takes the arguments of the hook by keyword. Look them up once, before a loop: nothing is then left to do
        where nobody listens. A plugin with a method ``listens_to`` is asked with the hook's name whether it does now.
        """
        return self._calls.listeners(getattr(self.hook, hook_name))

    def hooks_problem(self, offer: HooksOffer) -> PluginError | None:
        """Return what is wrong with the hooks of an installed wheel, which are then left out; None if nothing is."""
        return self._problems.get(offer)

    def _after_call(
        self, outcome: Any, hook: str, implementations: Sequence[Any], arguments: Mapping[str, Any]
    ) -> None:
        who = ", ".join(str(self._sources.get(id(one.plugin), HERE)) for one in reversed(implementations)) or "nobody"
        answer = "an error" if outcome.exception is not None else outcome.get_result()
        tell(trace_line(hook, who, arguments, answer))

    # -- who takes part -----------------------------------------------------------------------------------

    def obey(self, recipe: Sequence[str]) -> None:
        """Do what a recipe says that was read after this was made: ``recipe`` of :class:`PluginManager`.

        Raises:
            PluginError: a plugin file cannot be used, or nothing is called so.
        """
        self._switch_off(recipe, f"the recipe's {DISABLED}=")
        for offer, plugin in list(self._registered.items()):
            if self.registry.preferences.off(offer.word, offer.name, offer.source) is not None:
                self._pluggy.unregister(plugin)
                del self._registered[offer]
        self._use(recipe, Rank.RECIPE)

    def _switch_off(self, words: Sequence[str], by: str) -> None:
        off = [word.removeprefix(OFF) for word in words if word.startswith(OFF)]
        self.registry.preferences.switch_off(off, by)

    def _use(self, words: Sequence[str], rank: Rank) -> None:
        """Load plugin files, and let what is named come before others."""
        for word in words:
            if word.startswith(OFF) or self.registry.preferences.off("", "", Source(word)) is not None:
                continue
            self.registry.preferences.prefer(word, rank)
            wheels = self._discovery.wheels() if self._discovery is not None else ()
            if Path(word).suffix != ".py" and any(wheel.answers_to(word) for wheel in wheels):
                continue
            # The same file given twice is the same plugin, not two that take each other's names.
            file = Path(word).resolve()
            if file not in self._files:
                self._files.add(file)
                self._add_file(word)

    def _discover(self, discovery: Discovery, load_hooks: bool) -> None:
        self._register(discovery, CORE)
        for name, entry, source in discovery.entries(HOOKS_GROUP):
            offer = HooksOffer("hooks", name, source, entry.value, entry.load)
            self.hooks_offers.append(offer)
            if not load_hooks or self.registry.preferences.off(offer.word, name, source) is not None:
                continue
            try:
                self._register(offer.get(), source, offer.title)
                self._registered[offer] = offer.get()
            except PluginError as error:
                if os.environ.get(STRICT_SWITCH) == "1":
                    raise
                self._problems[offer] = error
                self._report(f"{error}\n    It is left out.")

    def _add_file(self, path: str) -> None:
        module = load_file(path)
        found = add_file(self.registry, path, module)
        hooks = listeners_of(module)
        for plugin in hooks:
            try:
                self._register(plugin, Source(path), f"plugin file '{path}'")
                self.hooks_of_files.append((plugin, Source(path)))
            except PluginError as error:
                raise at(error, Location(path)) from error
        if not (found or hooks):
            raise BrokenPluginError(
                "the plugin file has nothing that can be used",
                where=Location(path),
                hint="It needs a class of a component, an op, a kernel, a function or a method marked with @hookimpl.",
            )

    def _register(self, plugin: object, source: Source, title: str = "") -> None:
        """Take a plugin in; the parts of it that were taken in are put out again if something is wrong with it."""
        title = title or f"listener {type(plugin).__name__}"
        self._sources[id(plugin)] = source
        try:
            with self.registry.provided_by(source), told_of_retired(title, self._report):
                self._pluggy.register(plugin)
            self._check_hooks(plugin, title, source)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if self._pluggy.is_registered(plugin):
                self._pluggy.unregister(plugin)
            if isinstance(error, PluginError):
                raise
            raise _cannot_register(title, error) from error

    def _check_hooks(self, plugin: object, title: str, source: Source) -> None:
        callers = self._pluggy.get_hookcallers(plugin) or []
        for caller in callers:
            missing = caller.spec is None and not all(
                one.optionalhook for one in caller.get_hookimpls() if one.plugin is plugin
            )
            if missing:
                raise BrokenPluginError(
                    f"{title} implements {caller.name}, which is no hook{did_you_mean(caller.name, hook_names())}",
                    hint="A hook of a newer core is marked with @hookimpl(optionalhook=True).",
                )
        if not callers and source is not HERE:
            what = f"module {plugin.__name__}" if isinstance(plugin, ModuleType) else f"{type(plugin).__name__} object"
            raise BrokenPluginError(f"{title} has no hooks: the {what} has no function marked with @hookimpl")


def hook_names() -> tuple[str, ...]:
    """The names of all hooks."""
    return tuple(name for name in vars(specs) if name.startswith("cntk_"))


def _cannot_register(title: str, error: BaseException) -> BrokenPluginError:
    if isinstance(error, pluggy.PluginValidationError):
        reason = str(error).strip().splitlines()
        return BrokenPluginError(f"{title} does not fit its hook", hint="\n".join(line for line in reason if line))
    return BrokenPluginError(
        f"{title} failed when it was asked what it offers: {type(error).__name__}: {error}",
        hint=f"raised by {last_line(error)}",
    )


def op_named(name: str) -> Op:
    """Return the op of a name: the core's, one of an installed wheel, or one that this process has registered.

    Raises:
        PluginError: there is none.
    """
    with suppress(PluginError):
        return core_op(name)
    found = PluginManager(load_hooks=False).registry.ops.find("", name)
    if found is None:
        raise PluginError(
            f"the operation '{name}' is not there",
            hint="Install the wheel that has it, or register it in this process.",
        )
    return found


OpNames.find = op_named  # pickles are read with all ops from now on
