"""What a step costs at least: its products at the rate of a large product, or its memory at the rate of a copy.

A perfect engine may compute and move at the same time, so the floor is the longer of the two. Of the memory only what
no fusion avoids counts: each weight and its smoothed gradient is read and written once, the inputs are read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from workloads import Cell, Convolutional, FeedForward, Recurrent, RuleUpdate, Workload, resnet_convolutions

SIDE = 2048
"""Rows and columns of the matrices of which ``candidates/matrix_product.py`` multiplies two in a step."""

COPIED = 10_000_000
"""Numbers that ``candidates/memory_copy.py`` reads and writes in a step."""

RATES = {"matrix_product": 2 * SIDE**3, "memory_copy": 2 * 4 * COPIED}
"""The candidates that measure the machine: operations, and bytes, of a step."""


class Work(NamedTuple):
    """Floating-point operations (a multiplication and an addition are two) and bytes of a step."""

    operations: float
    bytes: float


def work_of(workload: Workload) -> Work:
    """Return what a step of the workload does at least; the mean over its minibatches."""
    if isinstance(workload, RuleUpdate):
        return Work(0, 4 * workload.streams * workload.elements)
    if isinstance(workload, FeedForward):
        rows, inputs = workload.minibatch, workload.minibatch * workload.sizes[0]
        products = [wide * high for wide, high in zip(workload.sizes, workload.sizes[1:], strict=False)]
    elif isinstance(workload, Recurrent):
        rows = sum(len(labels) for minibatch in workload.data() for _, labels in minibatch) // workload.batches
        inputs = rows * (1 if workload.embedding else workload.inputs)
        products = [value.size for name, value in workload.parameters().items() if name[0] in "WHPV"]
    elif isinstance(workload, Cell):
        rows, sizes = workload.frames * workload.sequences, {n: v.size for n, v in workload.parameters().items()}
        inputs = rows * workload.inputs
        products = [sizes["Wx"] + sizes["Wq"], sizes["Wm"], sizes["Wk"], sizes["Wz"]]
    else:
        rows, inputs = workload.minibatch, workload.minibatch * prod(workload.image)
        products = list(_of_images(workload))
    # Forward, and the gradients of weights and of data; there is none of the inputs, but of embedded words there is.
    embedded = isinstance(workload, Recurrent) and workload.embedding
    counted = 3 * sum(products) - (0 if embedded else products[0])
    weights = sum(value.size for value in workload.parameters().values())
    return Work(2.0 * rows * counted, 4.0 * (weights * (4 if workload.momentum else 2) + inputs))


def _of_images(workload: Convolutional) -> Iterator[int]:
    """Yield the multiplications of each convolution and product for one image, the one of the input first."""
    places = {
        "lenet": {"conv1": 28**2, "conv2": 14**2},
        "cifar_convnet": {"conv[0]": 32**2, "conv[1]": 32**2, "conv[2]": 16**2, "conv[3]": 16**2},
        "resnet20": {f"{name}.conv": (32 * 16 // maps) ** 2 for name, _, maps, _, _ in resnet_convolutions()},
    }[workload.recipe]
    for name, shape in workload.shapes().items():
        if name.endswith(".W"):
            yield prod(shape) * places.get(name.removesuffix(".W"), 1)


def floor(workload: Workload, seconds: dict[str, float], ours: float) -> dict[str, Any]:
    """Return the record of the floor.

    Args:
        workload: whose steps were timed.
        seconds: of a step of each candidate of :data:`RATES`.
        ours: seconds of our step.
    """
    work = work_of(workload)
    matrix, copy = (RATES[name] / seconds[name] for name in RATES)
    by_products, by_memory = work.operations / matrix, work.bytes / copy
    return {
        "operations": work.operations,
        "bytes": work.bytes,
        "matrix_operations_per_s": matrix,
        "copy_bytes_per_s": copy,
        "bound": "products" if by_products > by_memory else "memory",
        "seconds": max(by_products, by_memory),
        "fraction": max(by_products, by_memory) / ours,
    }
