"""What compiled code can call by itself: functions, each with a block of all that it is called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
from numpy.typing import NDArray

from cntk_core.api.engines import Native

Array = NDArray[Any]


@attrs.frozen(eq=False)
class Row:
    """A compiled function and the block that it is called with.

    Attributes:
        function: the function.
        block: what it is called with.
        kept: arrays whose addresses are in the block.
    """

    function: Native
    block: Array
    kept: Any = None


@runtime_checkable
class Rows(Protocol):
    """Something that is called with some arguments, and can be done by compiled functions alone.

    If it has a method ``prepare``, that is called before: it writes into the blocks what has changed.
    """

    def rows(self, *arguments: Any) -> Sequence[Row] | None:
        """Return the functions that do what a call with these arguments does; None if there are none."""
