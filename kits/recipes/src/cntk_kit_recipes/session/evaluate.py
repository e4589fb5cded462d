"""Evaluation of criteria on a data set: the actions test and cv, and validation after an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.reader import SWEEP, DataReader, EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError
from cntk_core.network.network import Network
from cntk_core.network.node import Node
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.criteria import Criterion, CriterionSums, since
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.subminibatch import split
from cntk_kit_recipes.session.evaluate_ranks import evaluate_together
from cntk_kit_recipes.session.evaluation_told import Audience
from cntk_kit_recipes.session.run_log import RunLog, describe
from cntk_kit_recipes.session.traces import Traces


def evaluate(
    network: Network,
    engine: ExecutionEngine,
    reader: DataReader,
    roots: Sequence[Node],
    minibatch_size: int,
    epoch_size: int = SWEEP,
    log: RunLog | None = None,
    *,
    show_every: int = 100,
    show_first: int = 0,
    parts: int = 1,
    store: ParameterStore | None = None,
    each: Callable[[int, int], None] | None = None,
    ranks: Ranks | None = None,
    audience: Audience | None = None,
    traces: Traces | None = None,
) -> Mapping[str, Criterion]:
    """Compute criteria over a data set and log them.

    Args:
        network: with values and shapes.
        engine, reader: what computes and what gives the data.
        roots: the criteria, in the order in which they are shown.
        minibatch_size: samples of a minibatch.
        epoch_size: samples to evaluate; 0 is the whole set.
        log: where lines go; from trace level 1 there is one every ``show_every`` minibatches and for each of the first
            ``show_first``. At the end there is one with the final results in any case.
        parts: compute each minibatch in so many parts.
        store: of the network's parameters, if there is one already.
        each: called after each minibatch with its number (from 0) and its samples, in a serial run.
        ranks: who evaluates together, each its share; the figures are of all of them. None: nobody else.
        audience: hears of the minibatches and of what came of them.
        traces: prints values of nodes for each minibatch.

    Returns:
        Sums and counts by name.

    Raises:
        DataError: the reader gave no data.
    """
    stored = store if store is not None else ParameterStore(network.parameters, network.dtype)
    traced = traces.nodes(network, roots) if traces is not None else []
    program = engine.compile(make_plan(network, list(dict.fromkeys([*roots, *traced]))), stored)
    spec = EpochSpec(epoch_size=epoch_size, minibatch_size=minibatch_size)
    return evaluate_program(
        program,
        reader,
        roots,
        spec,
        log or RunLog(),
        show_every=show_every,
        show_first=show_first,
        parts=parts,
        each=each,
        ranks=ranks,
        audience=audience,
        traces=traces,
    )


def evaluate_program(
    program: Program,
    reader: DataReader,
    roots: Sequence[Node],
    spec: EpochSpec,
    log: RunLog,
    *,
    show_every: int = 0,
    show_first: int = 0,
    parts: int = 1,
    each: Callable[[int, int], None] | None = None,
    ranks: Ranks | None = None,
    audience: Audience | None = None,
    traces: Traces | None = None,
) -> Mapping[str, Criterion]:
    """Do the work of :func:`evaluate` with a program that is compiled already."""
    sums, team = CriterionSums(program, roots), ranks or Alone()
    sizes = MinibatchSizes(program.plan.network, log.line)
    shown: Mapping[str, Criterion] = {}
    shown_at = count = 0
    if log.bar is not None:
        log.bar.begin("evaluating", spec.epoch_size)

    def is_shown(count: int) -> bool:
        return log.trace_level > 0 and (count <= show_first or bool(show_every and count % show_every == 0))

    if team.size > 1:
        counts = evaluate_together(program, reader, spec, sums, team, parts, is_shown, traces)
    else:
        counts = _evaluated(program, reader, spec, sums, sizes, parts, each, traces)
    for count in counts:
        if audience is not None:
            audience.minibatch(count, sums)
        if log.bar is not None:
            log.bar.advance(sums.samples)
        if is_shown(count):
            now = sums.read()
            log.detail(_line(shown_at + 1, count, since(now, shown)))
            shown, shown_at = now, count
    if log.bar is not None:
        log.bar.end()
    if not count or (team.size > 1 and not sums.samples):
        raise DataError("there is no data to evaluate: the reader gave no minibatch")
    final = sums.read()
    if shown_at < count:
        log.detail(_line(shown_at + 1, count, since(final, shown)))
    log.line("Final Results: " + _line(1, count, final, roots))
    if audience is not None:
        audience.ended(final, count)
    return final


def _evaluated(
    program: Program,
    reader: DataReader,
    spec: EpochSpec,
    sums: CriterionSums,
    sizes: MinibatchSizes,
    parts: int,
    each: Callable[[int, int], None] | None,
    traces: Traces | None,
) -> Iterator[int]:
    """Evaluate the minibatches, add up their criteria, and yield how many there were so far."""
    for count, minibatch in enumerate(reader.minibatches(spec), start=1):
        for part in split(minibatch, parts):
            program.evaluate(part)
            sums.add(sizes.samples(part))
            if traces is not None:
                traces.show(program)
        if each is not None:
            each(count - 1, minibatch.samples)
        yield count


def _line(first: int, last: int, criteria: Mapping[str, Criterion], with_perplexity: Sequence[Node] = ()) -> str:
    entropies = {node.name for node in with_perplexity if node.op.traits.log_likelihood}
    texts = [
        describe(name, value) + (f"; perplexity = {_exp(value.average):.8f}" if name in entropies else "")
        for name, value in criteria.items()
    ]
    return f"Minibatch[{first}-{last}]: " + "; ".join(texts)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
