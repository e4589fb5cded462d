"""Binds what goes row by row: softmax and its kin, softmax with cross entropy, the count of errors."""

from __future__ import annotations

from functools import partial

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, elements_of, kernels, symbol
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Result, Tree


def _threads(width: int) -> int:
    """Threads for a row: whole warps, most with several columns each."""
    return min(256, max(32, 32 * (width // 128)))


def _rows(site: Site, node: Node, array: Array) -> tuple[Array, int, int]:
    """A value as CNTK's columns: the matrix, its rows and their width."""
    width = elements_of(node) if node.framed else (node.known_shape[-1] if node.known_shape else 1)
    rows = array.size // width if width else 0
    return array.reshape(rows, width), rows, width


def _launch(site: Site, name: str, rows: int, width: int, arguments: tuple[object, ...]) -> list[Call]:
    if not rows or not width:
        return []
    kernel = site.gpu.named("rows", name, site.dtype)
    return [site.gpu.launch(kernel, (rows,), (_threads(width),), arguments)]


def bind_softmax(name: str, site: Site, step: Step) -> list[Call]:
    """Return the calls of Softmax, LogSoftmax or Hardmax, whose kernel has this name."""
    (node,) = step.nodes
    given, rows, width = _rows(site, node.inputs[0], site.values[node.inputs[0]])
    return _launch(site, name, rows, width, (given, site.values[node], np.int64(width)))


def bind_softmax_gradient(name: str, site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of the gradient of Softmax or LogSoftmax."""
    (node,) = step.step.nodes
    (target,) = step.targets
    gradient, rows, width = _rows(site, node.inputs[0], site.gradients[node])
    arguments = (gradient, site.values[node], site.gradients[target.node], np.int64(width))
    return _launch(site, f"{name}_gradient", rows, width, (*arguments, np.int64(target.accumulate)))


def _plain(site: Site, node: Node) -> bool:
    """Whether labels and scores are rows of the same width; the labels may be sparse."""
    labels, scores = node.inputs[0], node.inputs[1]
    fits = bool(labels.framed and scores.framed) and elements_of(labels) == elements_of(scores) > 0
    return fits and labels is not scores and scores not in site.sparse


def _kept(site: Site, node: Node) -> Array:
    """Where the softmax is kept for the gradient."""
    scores = node.inputs[1]
    return site.scratch(node, "softmax", elements_of(scores)).reshape(site.rows(scores), elements_of(scores))


def _total(site: Site, parts: Array, out: Array) -> list[Call]:
    """Add the numbers of all rows."""
    tree: Tree = symbol("x")
    if not parts.size:
        return site.gpu.fill(out, 0.0)
    space = Space((parts.size,), known=False)
    operands = {"x": Operand(parts, (True,))}
    return sum_calls(site.gpu, space, operands, [Result(tree)], [out], (False,), site.workspace)


def bind_cross_entropy(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of CrossEntropyWithSoftmax, which keeps the softmax for the gradient."""
    (node,) = step.nodes
    if not _plain(site, node):
        return None
    labels, scores = node.inputs
    softmax = _kept(site, node)
    losses = site.scratch(node, "losses", 1)
    rows, width = softmax.shape
    inlet = site.sparse.get(labels)
    if inlet is not None:
        given = (*inlet.arrays("row"), site.matrix(scores))
        name = "sparse_cross_entropy"
    else:
        given = (site.matrix(labels), site.matrix(scores))
        name = "cross_entropy"
    calls = _launch(site, name, rows, width, (*given, softmax, losses, np.int64(width)))
    return [*calls, *_total(site, losses, site.values[node])]


def bind_cross_entropy_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of the gradient by the logits, if that is all that is wanted."""
    (node,) = step.step.nodes
    labels, scores = node.inputs
    if not _plain(site, node):
        return None
    if [target.node for target in step.targets] != [scores]:
        return _both(site, step)
    softmax = _kept(site, node)
    rows, width = softmax.shape
    inlet = site.sparse.get(labels)
    given = inlet.arrays("row") if inlet is not None else (site.matrix(labels),)
    name = "sparse_cross_entropy_gradient" if inlet is not None else "cross_entropy_gradient"
    accumulate = np.int64(step.targets[0].accumulate)
    out = site.gradient_matrix(scores)
    arguments = (*given, softmax, site.gradients[node], out, np.int64(width), accumulate)
    return _launch(site, name, rows, width, arguments)


def _both(site: Site, step: GradientStep) -> list[Call]:
    """The gradients by labels, too: ``-g * log(softmax)``, from what was kept."""
    (node,) = step.step.nodes
    labels, scores = node.inputs
    softmax = _kept(site, node)
    flat = (True, True)
    operands = {
        "p": Operand(softmax, flat),
        "y": Operand(site.matrix(labels), flat),
        "x": Operand(site.matrix(scores), flat),
        "g": Operand(site.gradients[node], (False, False)),
    }
    p, y, g = map(symbol, "pyg")
    calls: list[Call] = []
    for target in step.targets:
        out = site.gradient_matrix(target.node)
        if target.node is scores:
            space = Space(softmax.shape, known=False)
            calls += map_calls(site.gpu, space, operands, [Result(g * (p - y), target.accumulate)], [out])
        else:
            calls += _by_labels(site, node, out, accumulate=target.accumulate)
    return calls


def _by_labels(site: Site, node: Node, out: Array, *, accumulate: bool) -> list[Call]:
    scores = node.inputs[1]
    logarithms = site.workspace(out.size).reshape(out.shape)
    rows, width = out.shape
    calls = _launch(site, "log_softmax", rows, width, (site.matrix(scores), logarithms, np.int64(out.shape[1])))
    operands = {"l": Operand(logarithms, (True, True)), "g": Operand(site.gradients[node], (False, False))}
    tree = -(symbol("g") * symbol("l"))
    return [*calls, *map_calls(site.gpu, Space(out.shape, known=False), operands, [Result(tree, accumulate)], [out])]


def bind_classification_error(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that count the rows whose label is not among the best scores."""
    (node,) = step.nodes
    if not _plain(site, node):
        return None
    labels, scores = node.inputs[:2]
    best = site.values[node.inputs[2]] if len(node.inputs) > 2 else site.gpu.constant(1.0, site.dtype)
    errors = site.scratch(node, "errors", 1)
    rows, width = site.rows(scores), elements_of(scores)
    inlet = site.sparse.get(labels)
    if inlet is not None:
        (given,), name = inlet.arrays("best"), "sparse_classification_error"
    else:
        given, name = site.matrix(labels), "classification_error"
    calls = _launch(site, name, rows, width, (given, site.matrix(scores), best, errors, np.int64(width)))
    return [*calls, *_total(site, errors, site.values[node])]


KERNELS = (
    *kernels("cuda", ["Softmax"], partial(bind_softmax, "softmax"), partial(bind_softmax_gradient, "softmax")),
    *kernels(
        "cuda", ["LogSoftmax"], partial(bind_softmax, "log_softmax"), partial(bind_softmax_gradient, "log_softmax")
    ),
    *kernels("cuda", ["Hardmax"], partial(bind_softmax, "hardmax")),
    *kernels("cuda", ["CrossEntropyWithSoftmax"], bind_cross_entropy, bind_cross_entropy_gradient),
    *kernels("cuda", ["ClassificationError"], bind_classification_error),
)
