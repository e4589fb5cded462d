"""Wrappers of a hook around its implementations, each of them guarded on its own.

pluggy runs all implementations of a hook in one call, and the first that fails takes the others along. Here each one,
wrappers included, is called by itself, so that what fails is left out and named, and the rest goes on. The order is
pluggy's: wrappers outside, the last registered outermost; within them ``tryfirst``, then the last registered first,
then ``trylast``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import attrs
import pluggy

from cntk_core.errors import CntkError

Listener = Callable[..., Any]
Failed = Callable[[BaseException], None]
"""Takes the failure of a wrapper: reports it, or raises what ends the run."""


class WrapperError(RuntimeError):
    """A wrapper that does not yield exactly once."""


@attrs.define(eq=False)
class Wrapper:
    """One wrapper of a hook.

    Attributes:
        function: makes the generator; takes the hook's arguments by keyword.
        old: it gets a ``pluggy.Result`` (``hookwrapper=True``), and what it returns means nothing.
        failed: takes what it raises, unless that is an error of ours or the one that it was given.
        silent: it has failed, and is not called again in this run.
    """

    function: Listener
    old: bool
    failed: Failed
    silent: bool = False

    def begin(self, arguments: dict[str, Any]) -> Generator[Any, Any, Any] | None:
        """Run it up to its ``yield``; None if it failed there."""
        try:
            generator = self.function(**arguments)
            next(generator)
        except (CntkError, KeyboardInterrupt):
            raise
        except StopIteration:
            self._fail(WrapperError("it did not yield"))
        except BaseException as error:
            self._fail(error)
        else:
            return generator  # type: ignore[no-any-return]
        return None

    def end(self, generator: Generator[Any, Any, Any], outcome: pluggy.Result[Any]) -> pluggy.Result[Any]:
        """Run the rest of it, and return what it makes of an outcome; one that fails leaves it as it is."""
        before = outcome.exception
        try:
            if self.old:
                generator.send(outcome)
            elif before is not None:
                generator.throw(before)
            else:
                generator.send(outcome.get_result())
        except StopIteration as stop:
            return outcome if self.old else given(stop.value)
        except (CntkError, KeyboardInterrupt) as error:
            return raised(error)
        except BaseException as error:
            if error is not before:
                self._fail(error)
            return outcome
        generator.close()
        self._fail(WrapperError("it yields more than once"))
        return outcome

    def _fail(self, error: BaseException) -> None:
        self.silent = True
        self.failed(error)


def given(value: Any) -> pluggy.Result[Any]:
    """The outcome that is a value."""
    return pluggy.Result.from_call(lambda: value)


def raised(error: BaseException) -> pluggy.Result[Any]:
    """The outcome that is an error."""
    outcome = given(None)
    outcome.force_exception(error)
    return outcome


def around(wrappers: Sequence[Wrapper], inner: Listener) -> Listener:
    """Return a listener that calls wrappers around an inner one.

    Args:
        wrappers: the outermost first.
        inner: takes the same arguments by keyword; what it returns is what the innermost wrapper is given.
    """

    def call(**arguments: Any) -> Any:
        begun: list[tuple[Wrapper, Generator[Any, Any, Any]]] = []
        outcome: pluggy.Result[Any]
        try:
            for wrapper in wrappers:
                generator = None if wrapper.silent else wrapper.begin(arguments)
                if generator is not None:
                    begun.append((wrapper, generator))
            outcome = given(inner(**arguments))
        except BaseException as error:
            outcome = raised(error)
        for wrapper, generator in reversed(begun):
            try:
                outcome = wrapper.end(generator, outcome)
            except BaseException as error:  # the failure of a wrapper that ends the run
                outcome = raised(error)
        return outcome.get_result()

    return call
