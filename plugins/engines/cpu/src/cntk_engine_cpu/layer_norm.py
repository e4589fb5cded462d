"""Layer normalization as kernels that go over the rows: each sample, or each line of its last axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Native, Step, elements_of, kernels
from cntk_engine_cpu.compiler import compile_file
from cntk_engine_cpu.parts import Cut
from cntk_engine_cpu.shared_calls import Sum, shared_calls
from cntk_engine_cpu.site import Array, Call, Site

_MATRIX, _FLAT = "{dtype}[:, ::1]", "{dtype}[::1]"
_SIGNATURES = {
    "layer_norm": f"void({_MATRIX}, {_FLAT}, {_FLAT}, float64, {_MATRIX}, {_MATRIX})",
    "layer_norm_gradient": f"void({_MATRIX}, {_FLAT}, {_MATRIX}, {_MATRIX}, {_MATRIX}, boolean)",
    "layer_norm_sums": f"void({_MATRIX}, {_MATRIX}, {_MATRIX}, {_FLAT}, {_FLAT})",
}


def _columns(site: Site, node: Node) -> int | None:
    """How many elements are normalized together; None if another way has to be taken."""
    data, *numbers = node.inputs
    shape = data.known_shape
    axes = node.attributes.rank_of(shape)
    columns = int(np.prod(shape[len(shape) - axes :]))
    # A number for each element of a row; those that are repeated, or stand for whole rows, are left to the op.
    fits = all(elements_of(each) == columns and len(each.known_shape) <= axes for each in numbers)
    return columns if site.kernels.compiled and data.framed and fits and columns else None


def _moments(site: Site, node: Node, columns: int) -> Array:
    """Room for mean and inverse deviation of each row."""
    data = node.inputs[0]
    lines = elements_of(data) // columns
    like = np.empty((site.rows(data), 2 * lines), site.dtype)
    return site.scratch(node, like, data.axis).reshape(-1, 2)


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a layer normalization and keeps what its gradient wants to know."""
    (node,) = step.nodes
    columns = _columns(site, node)
    if columns is None:
        return None
    scale, bias = (
        site.values[node.inputs[place]].reshape(-1) if len(node.inputs) > place else np.full(columns, fill, site.dtype)
        for place, fill in ((1, 1.0), (2, 0.0))
    )
    data = site.values[node.inputs[0]].reshape(-1, columns)
    arguments = (
        data,
        scale,
        bias,
        node.attributes.epsilon,
        _moments(site, node, columns),
        site.values[node].reshape(-1, columns),
    )
    cuts: list[Cut] = ["rows", "whole", "whole", "whole", "rows", "rows"]
    return shared_calls(site, _kernel(site, "layer_norm"), data.shape, arguments, cuts)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a layer normalization."""
    (node,) = step.step.nodes
    columns = _columns(site, node)
    data, *numbers = node.inputs
    if columns is None or len(set(node.inputs)) < len(node.inputs):
        return None
    x = site.values[data].reshape(-1, columns)
    moments = _moments(site, node, columns)
    incoming = site.gradients[node].reshape(-1, columns)
    wanted = {target.node: target for target in step.targets}
    calls: list[Call] = []
    if any(each in wanted for each in numbers):
        sums = [Sum(np.zeros(columns, site.dtype)) for _ in range(2)]
        for place, each in enumerate(numbers):
            if each in wanted:
                sums[place] = Sum(site.gradients[each].reshape(-1), wanted[each].accumulate)
        summed: list[Cut] = ["rows", "rows", "rows", "whole", "whole"]
        calls += shared_calls(site, _kernel(site, "layer_norm_sums"), x.shape, (x, moments, incoming, *sums), summed)
    if data in wanted:
        scale = site.values[numbers[0]].reshape(-1) if numbers else np.ones(columns, site.dtype)
        out = site.gradients[data].reshape(-1, columns)
        arguments = (x, scale, moments, incoming, out, wanted[data].accumulate)
        cuts: list[Cut] = ["rows", "whole", "rows", "rows", "rows", "whole"]
        calls += shared_calls(site, _kernel(site, "layer_norm_gradient"), x.shape, arguments, cuts)
    return calls


def _kernel(site: Site, name: str) -> Native:
    dtype = site.dtype.name
    path = Path(__file__).with_name("layer_norm_kernels.py")
    return compile_file(path, name, dtype, _SIGNATURES[name].format(dtype=dtype))


KERNELS = kernels("cpu", ["LayerNormalization"], bind_forward, bind_gradient)
