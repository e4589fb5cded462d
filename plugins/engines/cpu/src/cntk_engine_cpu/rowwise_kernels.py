"""Kernels that go row by row. Compiled by :func:`cntk_engine_cpu.compiler.compile_file`, for other precisions too.

Loops are written out: what a compiler makes vector code of is a loop without branches over one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_engine_cpu.functions import larger, largest
from cntk_engine_cpu.functions_float32 import F, exp


def cross_entropy(labels: Any, logits: Any, softmax: Any, out: Any) -> None:
    """Write the softmax of each row, and the sum of ``-labels * log(softmax)``."""
    rows, columns = logits.shape
    total: Any = 0.0
    for i in range(rows):
        top = largest(logits, i)
        mass: Any = F(0)
        for j in range(columns):
            e = exp(logits[i, j] - top)
            softmax[i, j] = e
            mass += e
        scale = F(1) / mass
        logarithm = np.log(mass) + top
        loss: Any = F(0)
        for j in range(columns):
            softmax[i, j] *= scale
            loss += labels[i, j] * (logarithm - logits[i, j])
        total += loss
    out[0] = total


def cross_entropy_gradient(labels: Any, softmax: Any, incoming: Any, out: Any, accumulate: bool) -> None:
    """Write or add the gradient by the logits."""
    rows, columns = out.shape
    g = incoming[0]
    for i in range(rows):
        if accumulate:
            for j in range(columns):
                out[i, j] += g * (softmax[i, j] - labels[i, j])
        else:
            for j in range(columns):
                out[i, j] = g * (softmax[i, j] - labels[i, j])


def sparse_cross_entropy(first: Any, columns: Any, numbers: Any, logits: Any, softmax: Any, out: Any) -> None:
    """The same with labels of which ``columns[first[i]:first[i + 1]]`` of row i have numbers."""
    rows, width = logits.shape
    total: Any = 0.0
    for i in range(rows):
        top = largest(logits, i)
        mass: Any = F(0)
        for j in range(width):
            e = exp(logits[i, j] - top)
            softmax[i, j] = e
            mass += e
        scale = F(1) / mass
        logarithm = np.log(mass) + top
        for j in range(width):
            softmax[i, j] *= scale
        loss: Any = F(0)
        for k in range(first[i], first[i + 1]):
            loss += numbers[k] * (logarithm - logits[i, columns[k]])
        total += loss
    out[0] = total


def sparse_cross_entropy_gradient(
    first: Any, columns: Any, numbers: Any, softmax: Any, incoming: Any, out: Any, accumulate: bool
) -> None:
    """Write or add the gradient by the logits for such labels."""
    rows, width = out.shape
    g = incoming[0]
    for i in range(rows):
        if accumulate:
            for j in range(width):
                out[i, j] += softmax[i, j] * g
        else:
            for j in range(width):
                out[i, j] = softmax[i, j] * g
        for k in range(first[i], first[i + 1]):
            out[i, columns[k]] -= g * numbers[k]


def sparse_classification_error(wanted: Any, scores: Any, out: Any) -> None:
    """Count the rows whose best score is not that of the wanted column."""
    rows, width = scores.shape
    wrong = 0
    for i in range(rows):
        score = scores[i, wanted[i]]
        ahead = 0
        for j in range(width):
            behind = scores[i, j] < score or (scores[i, j] == score and j >= wanted[i])
            ahead += not behind
        wrong += ahead >= 1
    out[0] = wrong


def classification_error(labels: Any, scores: Any, out: Any) -> None:
    """Count the rows whose best score is not the label's."""
    rows, columns = scores.shape
    wrong = 0
    for i in range(rows):
        best = largest(labels, i)
        wanted = 0
        while wanted < columns - 1 and larger(best, labels[i, wanted]):
            wanted += 1
        score = scores[i, wanted]
        # Of equal scores the first is the best; what cannot be compared counts as better.
        ahead = 0
        for j in range(columns):
            behind = scores[i, j] < score or (scores[i, j] == score and j >= wanted)
            ahead += not behind
        wrong += ahead >= 1
    out[0] = wrong
