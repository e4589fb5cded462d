"""Where the first value came from that is not a number.

A criterion is read now and then only, and by then all parameters may be lost. So the epoch is run again from its start,
exactly as before, with a look at the parameters after each minibatch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from cntk_core.interfaces.engine import ExecutionEngine
from cntk_core.interfaces.reader import Minibatch
from cntk_core.network.node import Input, Node
from cntk_core.plan.make import make_plan
from cntk_core.training.epoch import EpochLoop, Pace

LIMIT = 300.0
"""Seconds after which the search is given up."""


def find_origin(
    engine: ExecutionEngine,
    loop: EpochLoop,
    criterion: Node,
    minibatches: Iterable[Minibatch],
    pace: Pace,
    count: int,
) -> str:
    """Return a sentence that names the minibatch and the node, or nothing if they were not found.

    Args:
        engine: makes a program that shows the values of all nodes.
        loop: of the training, with the state in which the epoch began; that state is lost.
        criterion: what is trained.
        minibatches, pace: of the epoch.
        count: minibatches after which it was noticed.
    """
    began = time.monotonic()
    values = loop.store.values
    loop.program.begin_epoch(pace.epoch, loop.settings.program_settings(pace.epoch))
    for index, minibatch in enumerate(minibatches):
        if index >= count or time.monotonic() - began > LIMIT:
            return ""
        before = loop.store.snapshot()
        loop.step(minibatch, pace, index)
        if not np.isfinite(values).all() or np.isnan(loop.program.value(criterion.name)).any():
            loop.store.restore(before)
            return _describe(engine, loop, criterion, minibatch, pace, index)
    return ""


def _describe(
    engine: ExecutionEngine, loop: EpochLoop, criterion: Node, minibatch: Minibatch, pace: Pace, index: int
) -> str:
    """Compute one minibatch with all values kept, and name the first that is not a number."""
    network = loop.program.plan.network
    place = f"minibatch {index + 1} of epoch {pace.epoch + 1}"
    order = network.order([criterion], stop_at_constants=True)
    for node in order:
        if isinstance(node, Input) and _has_nan(minibatch.streams[node.name].data):
            return f"The data of '{node.name}' have values that are not numbers, in {place}."
    computed = [node for node in order if node.inputs and node.value is None]
    program = engine.compile(make_plan(network, computed, criterion), loop.store, seed=loop.seed)
    program.begin_epoch(pace.epoch, loop.settings.program_settings(pace.epoch), minibatches_done=index)
    before = loop.store.snapshot()
    program.compute_gradients(minibatch)
    gradients = [p for p in program.plan.trained if not np.isfinite(loop.store.gradient(p)).all()]
    loop.store.restore(before)
    for node in computed:
        if np.isnan(program.value(node.name)).any():
            text = f"'{node.name}' = {node.op.name}(...) is the first node that is not a number, in {place}"
            return f"{text}{_why(node, program)}."
    if gradients:
        names = ", ".join(f"'{parameter.name}'" for parameter in gradients)
        return f"The nodes are numbers, but the gradient of {names} is not finite, in {place}."
    return f"Nodes and gradients are finite, but the update of the parameters is not, in {place}."


def _why(node: Node, program: Any) -> str:
    infinite = [
        child.name for child in node.inputs if child.inputs and child.value is None
        and np.isinf(program.value(child.name)).any()
    ]  # fmt: skip
    return f"; its input '{infinite[0]}' has infinite values" if infinite else ""


def _has_nan(data: Any) -> bool:
    return bool(np.isnan(data if isinstance(data, np.ndarray) else data.data).any())
