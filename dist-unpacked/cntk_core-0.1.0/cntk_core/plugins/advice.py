"""A sentence that helps with the mistakes that authors of plugins make first."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType

import attrs

from cntk_core.contract.component import Component
from cntk_core.errors import did_you_mean
from cntk_core.ops.language.expression import FUNCTIONS

_CHOICE = (
    "It runs on whole arrays, and on a trace of it: there is no single number to compare.",
    "Write m.where(m.greater(x, 0), a, b) in place of 'if x > 0: ...'.",
)
_LOOP = (
    "It is written for one element and applied to all frames at once: leave the loop and the index out.",
    "An op that needs whole sequences or arrays is made with @define_op.",
)
_FUNCTION = (
    "It runs on arrays of any library, and on a trace of it: use the functions of m in place of those of NumPy or math",
)

_COMPARED = re.compile(
    r"not supported between instances of .*'Expr'|truth value|TracerBool|ConcretizationTypeError|"
    r"no single number to compare"
)
_LOOPED = re.compile(r"'Expr' object is not (iterable|subscriptable)|object of type 'Expr' has no len|'Expr' .* item")
_LIBRARY = re.compile(r"\b(np|numpy|math|cupy|cp|jnp|torch)\.(\w+)")
_TRACED = re.compile(
    r"\bExpr\b|TracerArrayConversion|__array_ufunc__|must be real number|only (length-1|0-dimensional) arrays"
)


@attrs.frozen
class Place:
    """A line of a plugin.

    Attributes:
        text: ``folder/file.py:12``.
        function: the function that it is in, ``Lion.rule``.
        frame: as it was when the error passed; None if the function was not even entered.
        called: the function that was called with wrong arguments, if it was that.
    """

    text: str
    function: str
    frame: FrameType | None = attrs.field(default=None, eq=False, repr=False)
    called: FunctionType | None = attrs.field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        return self.text


def advice_for(error: BaseException, place: Place) -> list[str]:
    """Return lines that help with an error in a plugin; often none.

    Args:
        error: what was raised.
        place: the plugin's line that it came from.
    """
    return list(_signature(place) if place.called is not None else _expression(error, place))


def _signature(place: Place) -> Iterator[str]:
    """How a function ought to look that was called with other arguments."""
    assert place.called is not None
    name = place.called.__name__
    wanted = next(
        (
            kind.__dict__[name]
            for kind in _interfaces(Component)
            if isinstance(kind.__dict__.get(name), FunctionType) and _is_method_of(place, kind)
        ),
        None,
    )
    if wanted is not None:
        yield f"It is called as {name}({', '.join(inspect.signature(wanted).parameters)})."


def _is_method_of(place: Place, kind: type) -> bool:
    assert place.called is not None
    owner = vars(sys.modules.get(place.called.__module__, sys)).get(place.called.__qualname__.partition(".")[0])
    return isinstance(owner, type) and issubclass(owner, kind)


def _interfaces(kind: type) -> Iterator[type]:
    children: list[type] = kind.__subclasses__()
    for child in children:
        yield from _interfaces(child)
        if child.__module__.startswith("cntk_core."):
            yield child


def _expression(error: BaseException, place: Place) -> Iterator[str]:
    """What helps in a function that is written over a math namespace ``m``."""
    if place.frame is None or "m" not in place.frame.f_code.co_varnames:
        return
    text = f"{type(error).__name__}: {error}"
    line = linecache.getline(place.frame.f_code.co_filename, place.frame.f_lineno)
    missing = re.match(r"AttributeError: .*has no (?:function|attribute) '(\w+)'", text)
    library = _LIBRARY.search(line)
    if missing is not None and re.search(rf"\bm\.{missing[1]}\b", line):
        yield f"m has no '{missing[1]}'{did_you_mean(missing[1], FUNCTIONS)}; it has {', '.join(FUNCTIONS)}."
    elif library is not None and _TRACED.search(text):
        name = library[2]
        instead = f": m.{name}." if name in FUNCTIONS else f"; it has {', '.join(FUNCTIONS)}."
        yield f"{_FUNCTION[0]}{instead}"
    elif _LOOPED.search(text):
        yield from _LOOP
    elif _COMPARED.search(text):
        yield from _CHOICE
