"""Hand-written kernels that go row by row: softmax with cross entropy, and the count of errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cntk_core.api import GradientStep, Node, Step
from cntk_engine_cpu.kernels import jit, say_compiling
from cntk_engine_cpu.site import Call, Site, elements_of


def _plain(site: Site, node: Node) -> bool:
    """Whether both operands are framed matrices of the same width, in compiled mode."""
    labels, scores = node.inputs[0], node.inputs[1]
    fits = labels.framed and scores.framed and elements_of(labels) == elements_of(scores)
    return bool(site.kernels.compiled and fits and labels is not scores)


def bind_cross_entropy(site: Site, step: Step) -> Call | None:
    """Return the call that computes CrossEntropyWithSoftmax and keeps the softmax for the gradient."""
    (node,) = step.nodes
    if not _plain(site, node):
        return None
    width = elements_of(node.inputs[1])
    labels, logits = (site.values[child].reshape(-1, width) for child in node.inputs)
    softmax = np.empty_like(logits)
    site.contexts[node].saved["softmax"] = softmax
    forward, _ = _cross_entropy(site.dtype.name)
    return Call(forward, (labels, logits, softmax, site.values[node].reshape(1)))


def bind_cross_entropy_gradient(site: Site, step: GradientStep) -> Call | None:
    """Return the call that computes the gradient by the logits, if that is all that is wanted."""
    (node,) = step.step.nodes
    wanted = [target.node for target in step.targets]
    if not _plain(site, node) or wanted != [node.inputs[1]]:
        return None
    width = elements_of(node.inputs[1])
    softmax = site.contexts[node].saved["softmax"]
    labels = site.values[node.inputs[0]].reshape(-1, width)
    out = site.gradients[node.inputs[1]].reshape(-1, width)
    _, gradient = _cross_entropy(site.dtype.name)
    incoming = site.gradients[node].reshape(1)
    return Call(gradient, (labels, softmax, incoming, out, step.targets[0].accumulate))


def bind_classification_error(site: Site, step: Step) -> Call | None:
    """Return the call that counts the rows whose best score is not the label's."""
    (node,) = step.nodes
    if len(node.inputs) != 2 or not _plain(site, node):
        return None
    width = elements_of(node.inputs[1])
    labels, scores = (site.values[child].reshape(-1, width) for child in node.inputs)
    return Call(_errors(site.dtype.name), (labels, scores, site.values[node].reshape(1)))


@cache
def _cross_entropy(dtype: str) -> tuple[Callable[..., None], Callable[..., None]]:
    say_compiling()
    if dtype == "float32":
        from cntk_engine_cpu.functions_float32 import exp
    else:
        from cntk_engine_cpu.functions_float64 import exp

    def forward(labels: Any, logits: Any, softmax: Any, out: Any) -> None:
        rows, columns = logits.shape
        total = 0.0
        for i in range(rows):
            top = logits[i, 0]
            for j in range(columns):
                top = max(top, logits[i, j])
            mass = softmax.dtype.type(0)
            for j in range(columns):
                e = exp(logits[i, j] - top)
                softmax[i, j] = e
                mass += e
            scale = softmax.dtype.type(1) / mass
            logarithm = np.log(mass) + top
            loss = softmax.dtype.type(0)
            for j in range(columns):
                softmax[i, j] *= scale
                # A label of 0 counts for nothing, even where the logarithm is infinite.
                loss += labels[i, j] * (logarithm - logits[i, j])
            total += loss
        out[0] = total

    def gradient(labels: Any, softmax: Any, incoming: Any, out: Any, accumulate: bool) -> None:
        rows, columns = out.shape
        g = incoming[0]
        for i in range(rows):
            mass = softmax.dtype.type(0)
            for j in range(columns):
                mass += labels[i, j]
            if accumulate:
                for j in range(columns):
                    out[i, j] += g * (softmax[i, j] * mass - labels[i, j])
            else:
                for j in range(columns):
                    out[i, j] = g * (softmax[i, j] * mass - labels[i, j])

    matrix, flat = f"{dtype}[:, ::1]", f"{dtype}[::1]"
    return (
        jit([f"void({matrix}, {matrix}, {matrix}, {flat})"])(forward),
        jit([f"void({matrix}, {matrix}, {flat}, {matrix}, boolean)"])(gradient),
    )


@cache
def _errors(dtype: str) -> Callable[..., None]:
    say_compiling()

    def count(labels: Any, scores: Any, out: Any) -> None:
        rows, columns = scores.shape
        wrong = 0
        for i in range(rows):
            wanted = 0
            for j in range(1, columns):
                if labels[i, j] > labels[i, wanted]:
                    wanted = j
            score = scores[i, wanted]
            # Of equal scores the first is the best; what cannot be compared counts as better.
            ahead = 0
            for j in range(columns):
                behind = scores[i, j] < score or (scores[i, j] == score and j >= wanted)
                if not behind:
                    ahead += 1
            if ahead >= 1:
                wrong += 1
        out[0] = wrong

    matrix, flat = f"{dtype}[:, ::1]", f"{dtype}[::1]"
    return jit([f"void({matrix}, {matrix}, {flat})"])(count)
