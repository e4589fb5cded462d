"""Sequence training over lattices with compiled best paths and sums over arcs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api.engines import Native, Step, kernels, run_forward
from cntk_engine_cpu.compiler import compile_file
from cntk_engine_cpu.fallback import Place
from cntk_engine_cpu.lattice_kernels import LOG_ZERO
from cntk_engine_cpu.site import Array, Call, Site

_NUMBERS, _TABLE, _PLACES, _PLACE_TABLE = "float64[::1]", "float64[:, ::1]", "int64[::1]", "int64[:, ::1]"
_ARCS = f"{_PLACES}, {_PLACES}, {_PLACES}, {_NUMBERS}, {_NUMBERS}"
_SIGNATURES = {
    "best_paths": f"void({_TABLE}, {_PLACES}, {_PLACES}, {_PLACE_TABLE}, {_TABLE}, {_TABLE}, {_TABLE}, {_TABLE}, "
    f"{_PLACE_TABLE}, {_NUMBERS}, {_PLACES})",
    "sum_ahead": f"void({_ARCS})",
    "mean_ahead": f"void({_ARCS}, {_NUMBERS}, {_NUMBERS})",
}


def bind_forward(site: Site, step: Step) -> Call | None:
    """Return the call that computes the criterion and keeps what its gradient wants to know."""
    (node,) = step.nodes
    if not site.kernels.compiled:
        return None
    assert node.op.forward is not None
    op = attrs.evolve(node.op, forward=partial(node.op.forward, by=CompiledSums()))
    place = Place(site)
    site.interpreted.add(node)

    def compute() -> None:
        context = site.contexts[node]
        context.saved.clear()
        inputs = [place.given(child) for child in node.inputs]
        place.put(site.values[node], run_forward(op, np, inputs, node.attributes, context))

    return Call(compute)


class CompiledSums:
    """Best paths and sums of the lattices of a minibatch, as ``Sums`` of ``cntk_core.ops.families.lattice_sums``."""

    def best_paths(self, lattices: Any, logs: Array) -> tuple[Array, Array]:
        """Return the best score of each segment, and the classes of its frames."""
        scores, classes = np.copy(lattices.skip), np.empty_like(lattices.frames)
        room = np.empty((2, 3)), np.empty((len(classes), 3), np.int64)
        given = lattices.enter, lattices.inner.reshape(-1, 9), lattices.leave
        _kernel("best_paths")(
            np.ascontiguousarray(logs),
            *(np.ascontiguousarray(each) for each in (lattices.frames, lattices.lengths, lattices.states, *given)),
            *room,
            scores,
            classes,
        )
        return scores, classes

    def sweep(self, lattices: Any, scores: Array, matches: Array) -> tuple[Array, Array, Array, Array]:
        """Return for each node the log sums and the mean numbers of correct frames, forward and backward."""
        order = np.concatenate([np.zeros(0, np.int64), *lattices.steps])
        ahead, before = _there(lattices, lattices.firsts, order, lattices.begins, lattices.ends, scores, matches)
        behind, after = _there(lattices, lattices.lasts, order[::-1], lattices.ends, lattices.begins, scores, matches)
        return ahead, behind, before, after


def _there(
    lattices: Any, starts: Array, order: Array, begins: Array, ends: Array, scores: Array, matches: Array
) -> tuple[Array, Array]:
    """Go over the arcs in one direction."""
    sums, means = np.full(lattices.nodes, LOG_ZERO), np.zeros(lattices.nodes)
    sums[starts] = 0.0
    arcs = [np.ascontiguousarray(each) for each in (order, begins, ends, scores)]
    _kernel("sum_ahead")(*arcs, sums)
    _kernel("mean_ahead")(*arcs, sums, np.ascontiguousarray(matches), means)
    return sums, means


def _kernel(name: str) -> Native:
    return compile_file(Path(__file__).with_name("lattice_kernels.py"), name, "float64", _SIGNATURES[name])


KERNELS = kernels("cpu", ["SequenceWithSoftmax"], bind_forward)
