"""The curves of a loop in Python, shown while it goes on: redrawn in a notebook, and a table of lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from cntk_tool_curves.curves import Curves, Epoch
from cntk_tool_curves.live import Handle, ipython_display
from cntk_tool_curves.page import charts, progress, table

REDRAW = 0.2
"""Least seconds between two updates of what a notebook shows."""

_WIDTH = 12
"""Characters of a number in the table."""


class LiveCurves:
    """Shows how a training in Python goes. Loops of one's own tell it by :meth:`add`.

    It is also a callback of ``cntk_fit``: ``estimator.fit(x, y, epochs=20, callbacks=[LiveCurves()])``. In a notebook
    the cell shows the curves and draws them anew; elsewhere each call prints a line of a table.

    Args:
        epochs: how many there will be; 0: nobody knows.
        name: a title.
        unit: what is counted: ``epoch``, ``step``.
        show: puts an object on display and returns a handle with a method ``update``; by default the notebook's, where
            this is one.
        clock: seconds, for how often the display changes.

    Attributes:
        curves: what was told so far.
    """

    def __init__(
        self,
        epochs: int = 0,
        *,
        name: str = "training",
        unit: str = "epoch",
        show: Callable[[object], Handle] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.curves = Curves(name)
        self.epochs = epochs
        self.unit = unit
        self._show = show if show is not None or kernel_shell() is None else _display_in_cell
        self._clock = clock
        self._handle: Handle | None = None
        self._began = self._drawn = clock()
        self._titles: list[str] = []

    def add(
        self, criteria: Mapping[str, Any], validation: Mapping[str, Any] | None = None, *, number: int | None = None
    ) -> None:
        """Show what an epoch gave, or so many steps.

        Args:
            criteria: by name, the training criterion first: numbers, or what ``trainer.read_totals()`` returns.
            validation: the same of the validation set.
            number: of the epoch; by default the one after the last. One that was there already is replaced, and those
                after it are forgotten.
        """
        number = self._last + 1 if number is None else number
        seconds, self._began = self._clock() - self._began, self._clock()
        told = _numbers(criteria)
        self.curves.add_epoch(Epoch(number, told, _numbers(validation or {}), seconds=seconds))
        if self._show is None:
            self._print()
        elif self._handle is None:
            self._handle = self._show(self)
            self._drawn = self._clock()
        elif number == self.epochs or self._clock() - self._drawn >= REDRAW:
            self.draw()

    def draw(self) -> None:
        """Show all that was told, now."""
        self._drawn = self._clock()
        if self._handle is not None:
            self._handle.update(self)

    def __call__(self, fitting: Any) -> None:
        """Show the epoch that a ``cntk_fit.Fitting`` has just done."""
        self.epochs = fitting.epochs
        self.add(fitting.training, fitting.validation, number=fitting.epoch)
        if fitting.ended:
            self.draw()

    @property
    def _last(self) -> int:
        return self.curves.epochs[-1].number if self.curves else 0

    def _print(self) -> None:
        for line in self._lines(self.curves.epochs[-1]):
            print(line)

    def _lines(self, epoch: Epoch) -> Iterator[str]:
        """The line of an epoch, after the titles where these are not what they were."""
        told = {**epoch.criteria, **{f"{name} (validation)": value for name, value in epoch.validation.items()}}
        titles = [self.unit, *told]
        widths = [max(_WIDTH, len(title)) for title in titles]
        if titles != self._titles:
            self._titles = titles
            yield "  ".join(title.rjust(width) for title, width in zip(titles, widths, strict=True))
        cells = [str(epoch.number), *(f"{value:.6g}" for value in told.values())]
        yield "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

    def _repr_html_(self) -> str:
        """Return the page that a notebook shows."""
        if not self.curves:
            return f"<div><b>{escape(self.curves.name)}</b> has not begun</div>"
        goal = f" of {self.epochs}" if self.epochs else ""
        title = f"<b>{escape(self.curves.name)}</b> {escape(self.unit)} {self._last}{goal}"
        bar = progress(self._last, self.epochs) if self.epochs else ""
        drawn = charts(self.curves, self.epochs or self._last, self.unit)
        return "".join(f"<div>{part}</div>" for part in (title, bar, drawn, table(self.curves, self.unit)) if part)

    def __repr__(self) -> str:
        """Return the same in words, for a console."""
        if not self.curves:
            return f"{self.curves.name} has not begun"
        last = self.curves.epochs[-1]
        told = {**last.criteria, **{f"{name} (validation)": value for name, value in last.validation.items()}}
        return f"{self.curves.name}: {self.unit} {last.number}: " + ", ".join(f"{k} = {v:.6g}" for k, v in told.items())


def _numbers(criteria: Mapping[str, Any]) -> dict[str, float]:
    """Return criteria as numbers: a ``Criterion`` is its average."""
    return {name: float(getattr(value, "average", value)) for name, value in criteria.items()}


def kernel_shell() -> Any:
    """Return IPython's shell if this process is the kernel of a notebook, else None. It imports nothing."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if getattr(shell, "kernel", None) is not None else None


def _display_in_cell(live: LiveCurves) -> Handle:
    """Show curves in the cell that runs now, and once more when it ends: the last update may have been left out."""
    events = kernel_shell().events
    handle: Handle = ipython_display(live)

    def cell_ends(*_: object) -> None:
        events.unregister("post_run_cell", cell_ends)
        live.draw()

    events.register("post_run_cell", cell_ends)
    return handle
