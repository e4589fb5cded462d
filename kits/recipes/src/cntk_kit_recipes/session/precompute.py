"""Values computed once over the data before training: means, deviations, priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.reader import DataReader, EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch
from cntk_kit_recipes.session.run_log import RunLog


def precompute(
    network: Network,
    engine: ExecutionEngine,
    store: ParameterStore,
    reader: DataReader,
    spec: EpochSpec,
    log: RunLog,
) -> bool:
    """Compute all values that are not there yet, in one pass over the data (one more for values that need others).

    Returns:
        Whether there were any.

    Raises:
        NetworkError: there was no data, or values need each other.
    """
    missing = [node for node in network if node.op.role == "precompute" and node.value is None]
    if not missing:
        log.detail("No PreCompute nodes found, or all already computed. Skipping pre-computation step.")
        return False
    log.line()
    log.line(f"Precomputing --> {len(missing)} PreCompute nodes found.")
    log.line()
    log.detail(*(f"\t{node.name} = {node.op.name}()" for node in missing))
    while missing:
        ready = [node for node in missing if not _needs(network, node, missing)]
        if not ready:
            names = ", ".join(node.name for node in missing)
            raise NetworkError(f"the precomputed nodes {names} need each other", where=missing[0].where)
        _one_pass(network, engine, store, reader, spec, ready)
        missing = [node for node in missing if node not in ready]
    log.line()
    log.line("Precomputing --> Completed.")
    log.line()
    return True


def _needs(network: Network, node: Node, missing: Sequence[Node]) -> bool:
    return any(other in missing for other in network.order(node.inputs, stop_at_constants=True))


def _one_pass(
    network: Network,
    engine: ExecutionEngine,
    store: ParameterStore,
    reader: DataReader,
    spec: EpochSpec,
    nodes: Sequence[Node],
) -> None:
    sources = {node: node.inputs[0] for node in nodes}
    computed = [source for source in dict.fromkeys(sources.values()) if not isinstance(source, Input)]
    program = engine.compile(make_plan(network, computed), store) if computed else None
    gathered: dict[Node, Any] = {}
    for node in nodes:
        if node.op.accumulator is None:
            raise NetworkError(f"{node.op.name} '{node.name}' cannot be computed beforehand", where=node.where)
        gathered[node] = node.op.accumulator(sources[node].known_shape)
    for minibatch in reader.minibatches(spec):
        if program is not None:
            program.evaluate(minibatch)
        values = {source: _value(source, minibatch, program) for source in sources.values()}
        for node, accumulator in gathered.items():
            accumulator.add(values[sources[node]])
    for node, accumulator in gathered.items():
        node.value = np.asarray(accumulator.result(), network.dtype).reshape(node.known_shape)


def _value(source: Node, minibatch: Minibatch, program: Program | None) -> Any:
    if not isinstance(source, Input):
        assert program is not None
        return program.value(source.name)
    stream = minibatch.streams[source.name]
    data: Any = stream.data
    dense = data.toarray() if stream.sparse else data
    return dense.reshape(-1, *source.known_shape)
