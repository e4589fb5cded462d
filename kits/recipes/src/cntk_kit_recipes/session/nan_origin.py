"""Where the first value came from that is not a number.

A criterion is read now and then only, and by then all parameters may be lost. So the epoch is run again from its start,
exactly as before, with a look at the parameters after each minibatch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.reader import EpochSpec
from cntk_core.errors import CntkError
from cntk_core.network.node import Input, Node
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.files.checkpoint import load_checkpoint, restore_store
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.epoch_progress import NotANumber, Pace
from cntk_kit_recipes.session.generations import checkpoint_of
from cntk_kit_recipes.session.parts import SessionParts

LIMIT = 300.0
"""Seconds after which the search is given up."""


def explained(
    error: NotANumber,
    parts: SessionParts,
    loop: EpochLoop,
    criterion: Node,
    begun: Path,
    pace: Pace,
    spec: EpochSpec,
) -> NotANumber:
    """Return the error with where the first such value came from, if that can be found in a reasonable time.

    Args:
        error: as the epoch raised it.
        parts, loop: of the training. Its parameters are lost anyway.
        criterion: what is trained.
        begun: the model that the epoch began with; its checkpoint stands beside it, or none if it is the initial one.
        pace, spec: of the epoch.
    """
    parts.log.line("The training criterion is not a number. Looking for its origin: the epoch is run once more.")
    try:
        _return_to(begun, parts, loop)
        minibatches = parts.reader.minibatches(spec)
        origin = find_origin(parts.engine, loop, criterion, minibatches, pace, error.minibatches)
    except CntkError as failure:
        parts.log.line(f"Warning: the origin is not known: {failure.message}")
        return error
    lines = [origin, error.hint or ""] if origin else [error.hint or ""]
    return NotANumber(error.minibatches, hint="\n".join(lines))


def _return_to(model: Path, parts: SessionParts, loop: EpochLoop) -> None:
    """Put the parameters and the learner's state back to those of a model."""
    store = loop.store
    if checkpoint_of(model).is_file():
        checkpoint = load_checkpoint(checkpoint_of(model))
        restore_store(checkpoint, store)
        loop.steps = checkpoint.progress.steps
        return
    saved = parts.load_model(model, store.dtype)
    values = {parameter.name: parameter.value for parameter in saved.parameters}
    for parameter in store.parameters:
        store.value(parameter)[...] = values[parameter.name]
    store.reset_slots()
    loop.steps = 0


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
