"""What ``cntk predict`` does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from cntk_core.api import DataError, Input, NetworkError, Node, UsageError, elements
from cntk_core.api.builders import write_file
from cntk_core.api.engines import looked_along, make_plan
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_core.api.training import Model
from cntk_tool_predict.evaluating import Evaluator, Values, evaluate_all
from cntk_tool_predict.sinks import writer_of
from cntk_tool_predict.sources import Source, Wanted, open_source

if TYPE_CHECKING:
    from collections.abc import Callable


def predict(options: argparse.Namespace) -> int:
    """Compute and write; return the exit code.

    Raises:
        CntkError: the model, the data or the options do not fit, or the file cannot be written.
    """
    for name in ("batch", "workers"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(options, name)}")
    output = Path(options.output)
    if output.exists() and any(
        Path(read).exists() and output.samefile(read) for read in (options.model, options.input)
    ):
        raise UsageError(f"'{output}' is a file that is read", hint="Give the new one another name: it may be lost.")
    plugins = PluginManager(options.plugin)
    model = Model(ModelFiles(plugins.registry).load(options.model), engine=options.engine, plugins=plugins)
    evaluator = Evaluator(model, options.node)
    if not evaluator.nodes:
        raise NetworkError("the model marks no output", hint="Name the nodes whose values you want: --node NAME.")
    needed = [node for node in model.network.order(evaluator.nodes, stop_at_constants=True) if isinstance(node, Input)]
    labels = _labels(options, evaluator.nodes)
    write = writer_of(output, evaluator.nodes, labels)
    along = looked_along(make_plan(model.network, evaluator.nodes))
    sequences = frozenset(node.name for node in needed if node.axis in along)
    wanted = Wanted(needed, options.batch, _columns(options.columns), plugins, sequences)
    source = open_source(Path(options.input), wanted)
    batches = _Counted(evaluate_all(evaluator, source.batches, options.workers), source, options)
    try:
        # An old file is there until the new one is whole.
        write_file(output, write(batches, output, evaluator.nodes, labels))
    except OSError as error:
        raise DataError(f"'{output}' cannot be written: {error.strerror or error}") from None
    count = batches.count
    print(f"{output}: {count} sample{'' if count == 1 else 's'}, {', '.join(node.name for node in evaluator.nodes)}")
    return 0


class _Counted:
    """What comes out of a model, counted; where places are wanted, those of the largest values.

    Attributes:
        count: samples so far.
    """

    def __init__(self, batches: Iterator[list[Values]], source: Source, options: argparse.Namespace) -> None:
        self._batches, self._source, self._options = batches, source, options
        self.count = 0

    def __iter__(self) -> Iterator[list[Values]]:
        with _progress(self._source.samples) as tell:
            for values in self._batches:
                self.count += len(values[0].rows)
                tell(self.count)
                yield [_largest(one) for one in values] if self._options.argmax else values
        if not self.count:
            raise DataError(f"'{self._options.input}' has no samples")


def _largest(values: Values) -> Values:
    return attrs.evolve(values, rows=values.rows.reshape(len(values.rows), -1).argmax(axis=1))


def _labels(options: argparse.Namespace, nodes: Sequence[Node]) -> list[str]:
    if not options.labels:
        return []
    if not options.argmax:
        raise UsageError("--labels names the places of --argmax")
    try:
        labels = Path(options.labels).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"the labels '{options.labels}' cannot be read: {error.strerror}") from None
    for node in nodes:
        if elements(node.known_shape) != len(labels):
            raise DataError(
                f"'{options.labels}' has {len(labels)} names, '{node.name}' {elements(node.known_shape)} places"
            )
    return labels


def _columns(said: Sequence[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for text in said:
        name, equals, listed = text.partition("=")
        if not equals or not name or not listed:
            raise UsageError(f"'{text}' does not say which columns an input gets", hint="Write --columns INPUT=A,B,C.")
        columns[name] = [column.strip() for column in listed.split(",")]
    return columns


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far it is."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("predict"), BarColumn(), MofNCompleteColumn(), TextColumn("samples"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("predict", total=total)
        yield lambda done: bar.update(task, completed=done)
