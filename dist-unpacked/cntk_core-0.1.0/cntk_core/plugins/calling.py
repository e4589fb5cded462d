"""The listeners of a hook: its implementations one by one, each guarded, with wrappers around all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pluggy

from cntk_core.plugins.faults import hook_failure
from cntk_core.plugins.listening import (
    Listener,
    Report,
    checked,
    first_answer,
    guarded,
    passed_on,
    traced,
    with_fewer_arguments,
)
from cntk_core.plugins.markers import Check, check_of, is_gathered, passed_on_by
from cntk_core.plugins.offer import CORE, HERE, Source
from cntk_core.plugins.wrapping import Wrapper, around


class HookCalls:
    """Gives the listeners of hooks.

    Args:
        source_of: who a plugin is.
        report: takes a warning about a listener that failed.
        trace: print a line for each call.
    """

    def __init__(self, source_of: Callable[[object], Source], report: Report, *, trace: bool = False) -> None:
        self._source_of = source_of
        self._report = report
        self._trace = trace
        # Kept, so that one that has failed stays silent however often it is looked up.
        self._guarded: dict[pluggy.HookImpl, Listener] = {}
        self._wrappers: dict[pluggy.HookImpl, Wrapper] = {}

    def listeners(self, caller: pluggy.HookCaller) -> tuple[Listener, ...]:
        """Return who implements a hook, in the order in which they are asked; nothing if nobody does.

        Where there are wrappers, it is one listener that calls them around the others.
        """
        wanted = [one for one in reversed(caller.get_hookimpls()) if self._listens(one, caller.name)]
        if not wanted:
            return ()
        spec = caller.spec.function if caller.spec is not None else None
        first = bool(caller.spec is not None and caller.spec.opts.get("firstresult"))
        argument = passed_on_by(spec)
        given = tuple(caller.spec.argnames) if caller.spec is not None else ()
        decides = first or bool(argument)
        wrappers = [self._wrapper(one, caller.name, given, decides) for one in wanted if is_wrapper(one)]
        check = check_of(spec)
        plain = tuple(self._listener(one, caller.name, given, decides, check) for one in wanted if not is_wrapper(one))
        if not wrappers:
            return plain
        together = around(wrappers, _in_turn(plain, first=first, argument=argument))
        whole = _flat(together) if is_gathered(spec) else together
        if self._trace:
            who = ", ".join(str(self._source_of(one.plugin)) for one in wanted if is_wrapper(one))
            whole = traced(whole, caller.name, f"wrappers of {who}")
        return (whole,)

    def _listens(self, one: pluggy.HookImpl, hook: str) -> bool:
        ask = getattr(one.plugin, "listens_to", None)
        if ask is None:
            return True
        source = self._source_of(one.plugin)
        if source in (HERE, CORE):
            return bool(ask(hook))
        asked = guarded(lambda hook: ask(hook), "listens_to", source, decides=False, report=self._report)
        return bool(asked(hook=hook))

    def _listener(
        self, one: pluggy.HookImpl, hook: str, given: tuple[str, ...], decides: bool, check: Check | None
    ) -> Listener:
        source = self._source_of(one.plugin)
        listener = checked(with_fewer_arguments(one.function, tuple(one.argnames), given), check)
        if source not in (HERE, CORE):
            if one not in self._guarded:
                report = self._report
                self._guarded[one] = guarded(
                    listener, hook, source, decides=decides, report=report, function=one.function
                )
            listener = self._guarded[one]
        return traced(listener, hook, str(source)) if self._trace else listener

    def _wrapper(self, one: pluggy.HookImpl, hook: str, given: tuple[str, ...], decides: bool) -> Wrapper:
        if one in self._wrappers:
            return self._wrappers[one]
        source = self._source_of(one.plugin)

        def failed(error: BaseException) -> None:
            if source in (HERE, CORE):
                raise error
            broken = hook_failure(f"{hook} (a wrapper)", source, error, ends=decides, function=one.function)
            if decides:
                raise broken from error
            self._report(f"{broken}\n    It is not called again in this run.")

        function = with_fewer_arguments(one.function, tuple(one.argnames), given)
        self._wrappers[one] = Wrapper(function, bool(one.hookwrapper), failed)
        return self._wrappers[one]


def is_wrapper(one: pluggy.HookImpl) -> bool:
    """Whether an implementation is a wrapper, of the new style or of the old one."""
    return bool(one.wrapper or one.hookwrapper)


def _in_turn(listeners: Sequence[Listener], *, first: bool, argument: str) -> Listener:
    """One listener that asks the others as the hook has it; its answer is what wrappers are given."""

    def call(**told: Any) -> Any:
        if argument:
            return passed_on(listeners, argument, **told)
        if first:
            return first_answer(listeners, told)
        return [answer for listener in listeners if (answer := listener(**told)) is not None]

    return call


def _flat(listener: Listener) -> Listener:
    return lambda **told: [entry for answer in listener(**told) or () for entry in answer or ()]
