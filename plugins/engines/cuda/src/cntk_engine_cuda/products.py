"""Binds Times and TransposeTimes to cuBLAS, DiagTimes to generated kernels."""

from __future__ import annotations

from typing import Any

from cntk_core.api import Node
from cntk_core.api.engines import (
    GradientStep,
    Step,
    Target,
    elements_of,
    is_transposed,
    kernels,
    product_matrices,
    product_results,
    symbol,
)
from cntk_engine_cuda import sparse
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call, Gpu
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Flags, Result


def gemm(
    gpu: Gpu, a: Array, b: Array, out: Array, *, turn_a: bool = False, turn_b: bool = False, accumulate: bool = False
) -> list[Call]:
    """The calls for ``out = a b`` (or ``out += a b``) of matrices in one piece, each turned if asked for."""
    if not out.size:
        return []
    if not a.size:  # a sum over nothing
        return [] if accumulate else gpu.fill(out, 0.0)
    arguments = (a, b, out, turn_a, turn_b, accumulate)
    return [Call(gpu.blas.gemm, arguments, captured=gpu.blas.captured, movable=True)]


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a product; None if it is no plain one."""
    (node,) = step.nodes
    if node.inputs[1] in site.sparse:
        return sparse.bind_forward(site, step)
    found = product_matrices(node, site.values[node.inputs[0]], site.values[node.inputs[1]])
    if found is None:
        return None
    weights, rows = found
    out = product_results(node, site.values[node], weights)
    return gemm(site.gpu, rows, weights, out, turn_b=is_transposed(node))


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a product; None if it is no plain one."""
    (node,) = step.step.nodes
    left, right = node.inputs
    if right in site.sparse:
        return sparse.bind_gradient(site, step)
    if left is right:
        return None
    calls: list[Call] = []
    for target in step.targets:
        found = _target(site, node, target)
        if found is None:
            return None
        calls += found
    return calls


def _target(site: Site, node: Node, target: Target) -> list[Call] | None:
    left, right = node.inputs
    transposed = is_transposed(node)
    settings: dict[str, Any] = {"accumulate": target.accumulate}
    if target.node is left:
        found = product_matrices(node, site.gradients[left], site.values[right]) if right in site.values else None
        if found is None:
            return None
        out, rows = found
        gradient = product_results(node, site.gradients[node], out)
        first, second = (gradient, rows) if transposed else (rows, gradient)
        return gemm(site.gpu, first, second, out, turn_a=True, **settings)
    found = product_matrices(node, site.values[left], site.gradients[right])
    if found is None:
        return None
    weights, out = found
    gradient = product_results(node, site.gradients[node], weights)
    return gemm(site.gpu, gradient, weights, out, turn_b=not transposed, **settings)


# -- DiagTimes ----------------------------------------------------------------------------------------------


def _diagonal(site: Site, node: Node) -> tuple[Space, tuple[Flags, Flags]] | None:
    """All elements as ``(frames, rows, size)``, and along which of these axes diagonal and data vary."""
    diagonal, data = node.inputs
    size = elements_of(diagonal)
    if not size or diagonal is data or any(child in site.sparse for child in node.inputs):
        return None
    sizes = (site.rows(node), elements_of(data) // size, size)
    return Space(sizes, known=False), ((bool(diagonal.framed), False, True), (bool(data.framed), True, True))


def bind_diagonal(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of DiagTimes."""
    (node,) = step.nodes
    found = _diagonal(site, node)
    if found is None:
        return None
    space, flags = found
    arrays = (site.values[child].reshape(-1) for child in node.inputs)
    operands = {name: Operand(array, own) for name, array, own in zip("dx", arrays, flags, strict=True)}
    return map_calls(site.gpu, space, operands, [Result(symbol("d") * symbol("x"))], [site.values[node].reshape(-1)])


def bind_diagonal_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradients."""
    (node,) = step.step.nodes
    found = _diagonal(site, node)
    if found is None:
        return None
    space, flags = found
    full = (True, True, True)
    operands = {"g": Operand(site.gradients[node].reshape(-1), full)}
    calls: list[Call] = []
    for target in step.targets:
        own = node.inputs.index(target.node)
        other = node.inputs[1 - own]
        given = operands | {"x": Operand(site.values[other].reshape(-1), flags[1 - own])}
        result = Result(symbol("g") * symbol("x"), target.accumulate)
        outputs = [site.gradients[target.node].reshape(-1)]
        if flags[own] == full:
            calls += map_calls(site.gpu, space, given, [result], outputs)
        else:
            calls += sum_calls(site.gpu, space, given, [result], outputs, flags[own], site.workspace)
    return calls


KERNELS = (
    *kernels("cuda", ["Times", "TransposeTimes"], bind_forward, bind_gradient),
    *kernels("cuda", ["DiagTimes"], bind_diagonal, bind_diagonal_gradient),
)
