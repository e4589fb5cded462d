"""Binds Times and TransposeTimes to matrix products."""

from __future__ import annotations

from typing import Any

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, Target, is_transposed, product_matrices, product_results
from cntk_engine_cpu import sparse
from cntk_engine_cpu.gemm import Product
from cntk_engine_cpu.site import Array, Call, Site


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls that compute a product."""
    (node,) = step.nodes
    inlet = sparse.inlet_of(site, node)
    if inlet is not None:
        return sparse.bind_forward(site, node, inlet)
    found = product_matrices(node, site.values[node.inputs[0]], site.values[node.inputs[1]])
    if found is None:
        return None
    weights, rows = found
    transposed = is_transposed(node)
    out = product_results(node, site.values[node], weights)
    return [Call(site.gemm.bind(rows, weights, out, transpose_b=transposed, ports=site.ports), (1.0, 0.0))]


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute the gradients of a product; None if it is no plain one."""
    (node,) = step.step.nodes
    inlet = sparse.inlet_of(site, node)
    if inlet is not None:
        return [sparse.bind_gradient(site, node, inlet, accumulate=target.accumulate) for target in step.targets]
    calls = [bind_target(site, step, target) for target in step.targets]
    return None if None in calls else [call for call in calls if call is not None]


def bind_target(site: Site, step: GradientStep, target: Target) -> Call | None:
    """Return the call that computes one gradient of a product; None if it is no plain one."""
    product = weight_product(site, step, site.gradients[target.node], target.node)
    if product is None:
        (node,) = step.step.nodes
        if node.inputs[0] is node.inputs[1] or target.node is not node.inputs[1]:
            return None
        product = _input_product(site, node)
        if product is None:
            return None
    return Call(product, (1.0, 1.0 if target.accumulate else 0.0))


def weight_product(site: Site, step: GradientStep, out: Array, target: Any) -> Product | None:
    """Return the product that computes the gradient of the left operand into ``out``; None if it is no plain one."""
    (node,) = step.step.nodes
    left, right = node.inputs
    if target is not left or left is right:
        return None
    found = product_matrices(node, out, site.values[right])
    if found is None:
        return None
    stored, rows = found
    gradient = product_results(node, site.gradients[node], stored)
    if is_transposed(node):
        return site.gemm.bind(gradient, rows, stored, transpose_a=True, ports=site.ports)
    return site.gemm.bind(rows, gradient, stored, transpose_a=True, ports=site.ports)


def _input_product(site: Site, node: Node) -> Product | None:
    left, right = node.inputs
    found = product_matrices(node, site.values[left], site.gradients[right])
    if found is None:
        return None
    weights, out = found
    gradient = product_results(node, site.gradients[node], weights)
    return site.gemm.bind(gradient, weights, out, transpose_b=not is_transposed(node), ports=site.ports)
