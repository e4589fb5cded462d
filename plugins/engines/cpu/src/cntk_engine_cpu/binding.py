"""A plan bound to arrays for given numbers of frames: the straight-line code of its forward and backward parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from cntk_core.api import Node, OpContext, Parameter, Plan
from cntk_core.api.engines import Axes, GradientStep, Loop, LoopGradient, Stage, Step, Target, makes_axis_by_values
from cntk_engine_cpu import (
    convolution,
    elementwise,
    elementwise_gradient,
    fallback,
    loop_kernels,
    loops,
    normalization,
    pooling,
    products,
    rowwise,
    sparse,
)
from cntk_engine_cpu.folds import fold_call, foldable
from cntk_engine_cpu.open_arrays import reaches_open
from cntk_engine_cpu.passes import passes, row_count, rows_alone
from cntk_engine_cpu.site import Call, Site
from cntk_engine_cpu.sparse import RowGradient, bind_rows, inlet_of
from cntk_engine_cpu.straight import straight_line
from cntk_engine_cpu.update import Numbers, Scalars, Update

SPECIAL_FORWARD: Mapping[str, Callable[[Site, Step], Call | None]] = {
    **dict.fromkeys(products.NAMES, products.bind_forward),
    "LookupTable": sparse.bind_look_up,
    "CrossEntropyWithSoftmax": rowwise.bind_cross_entropy,
    "ClassificationError": rowwise.bind_classification_error,
}

IMAGE_OPS: Mapping[str, Any] = {
    "Convolution": convolution,
    **dict.fromkeys(pooling.NAMES, pooling),
    "BatchNormalization": normalization,
}
"""The modules that bind ops whose kernels want channels last."""


def writes_channels_last(node: Node) -> bool:
    """Whether the kernel of a node gives images that lie channels last."""
    if node.op.name != "Convolution":
        return False
    form = convolution.convolution_form(node)
    return form is not None and not form.legacy


def follows_channels(node: Node) -> bool:
    """Whether the kernel of a node gives images that lie as those that it reads."""
    if node.op.name in pooling.NAMES:
        form = pooling.pooling_form(node)
        return form is not None and not form.legacy
    return node.op.name == "BatchNormalization"


class Bound:
    """The code for given numbers of frames. Its parts are made when they are first wanted.

    Args:
        site: the arrays.
        update: the rule, for :attr:`train`.
        stage: which forward steps.
        before: the code of the stage before.
    """

    def __init__(self, site: Site, update: Update | None, stage: Stage, before: Bound | None = None) -> None:
        self.site = site
        self.stage = stage
        self.before = before
        self._update = update
        steps = site.plan.steps[stage.first : stage.end]
        self.forward = straight_line([call for step in steps for call in _forward_calls(site, step)], site.ports)

    @functools.cached_property
    def backward(self) -> Callable[[], None]:
        """Computes all gradients, after ``forward``."""
        site = self.site
        calls = [call for step in site.plan.gradients for call in _gradient_calls(site, step, step.targets)]
        return straight_line(calls, site.ports)

    @functools.cached_property
    def train(self) -> Callable[[Sequence[Scalars]], None] | None:
        """Computes gradients and applies the update, folded where possible; called with the numbers of each parameter.

        None without an update rule.
        """
        return _train(self.site, self._update) if self._update is not None else None


def _forward_calls(site: Site, step: Step | Loop) -> list[Call]:
    if isinstance(step, Loop):
        compiled = None if reaches_open(step) else loop_kernels.bind_forward(site, step)
        return [compiled if compiled is not None else loops.bind_forward(site, step)]
    if step in site.absorbed:
        return []
    name = step.nodes[0].op.name
    if makes_axis_by_values(step.nodes[0]):
        return [fallback.bind_new_axis(site, step)]
    if reaches_open(step):
        return [fallback.bind_forward(site, step)]
    if elementwise.is_elementwise(step):
        found = elementwise.bind_forward(site, step)
    elif name in IMAGE_OPS:
        found = IMAGE_OPS[name].bind_forward(site, step)
    elif name in SPECIAL_FORWARD:
        calls: list[Call] = []
        plain = site.images.plain_site(site, step, calls) if site.images is not None else site
        special = SPECIAL_FORWARD[name](plain, step)
        found = [*calls, special] if special is not None else None
    else:
        found = None
    return found if found is not None else [fallback.bind_forward(site, step)]


def _loop_gradient(site: Site, step: LoopGradient) -> Call:
    compiled = loop_kernels.bind_gradient(site, step)
    return compiled if compiled is not None else loops.bind_gradient(site, step)


def _gradient_calls(site: Site, step: GradientStep | LoopGradient, targets: Sequence[Target]) -> list[Call]:
    """The calls for some targets of a step: one for all, or one for each of a product."""
    if isinstance(step, LoopGradient):
        return [_loop_gradient(site, step)]
    part = step if len(targets) == len(step.targets) else attrs.evolve(step, targets=tuple(targets))
    if reaches_open(step.step):
        return [fallback.bind_gradient(site, part)]
    if elementwise.is_elementwise(step.step):
        found = elementwise_gradient.bind_gradient(site, part)
    elif step.step.nodes[0].op.name in IMAGE_OPS:
        found = IMAGE_OPS[step.step.nodes[0].op.name].bind_gradient(site, part)
    else:
        after: list[Call] = []
        plain = plain_site(site, step)
        if site.images is not None:
            plain, part = site.images.plain_gradients(plain, part, after)
        found = _special_gradient(plain, part)
        found = [*found, *after] if found is not None else None
    return found if found is not None else [fallback.bind_gradient(site, part)]


def _special_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """The calls of a step that reads and writes plain arrays, if it has kernels."""
    node = step.step.nodes[0]
    if node.op.name == "CrossEntropyWithSoftmax":
        found = rowwise.bind_cross_entropy_gradient(site, step)
        return None if found is None else [found]
    inlet = inlet_of(site, node)
    if inlet is not None:
        return [sparse.bind_gradient(site, node, inlet, accumulate=target.accumulate) for target in step.targets]
    if node.op.name in products.NAMES:
        calls = [products.bind_target(site, step, target) for target in step.targets]
        return None if None in calls else [call for call in calls if call is not None]
    return None


def plain_site(site: Site, step: GradientStep) -> Site:
    """A site where what a step reads lies plain: in the copies that the forward part has made."""
    if site.images is None or step.step.nodes[0].op.name not in SPECIAL_FORWARD:
        return site
    return site.images.plain_site(site, step.step, [])


def _train(site: Site, update: Update) -> Callable[[Sequence[Scalars]], None]:
    """The backward part with folded updates, then the pass over all other parameters."""
    place = {parameter: index for index, parameter in enumerate(site.plan.trained)}
    current: list[Numbers] = []
    calls: list[Call] = []
    folded: set[Parameter] = set()
    by_rows = {
        parameter: RowGradient() for parameter in rows_alone(site.plan, update) if _stays_sparse(site, parameter)
    }
    for index, step in enumerate(site.plan.gradients):
        gradient = next((by_rows[target.node] for target in step.targets if target.node in by_rows), None)
        if gradient is not None and isinstance(step, GradientStep):
            inlet = inlet_of(site, step.step.nodes[0])
            assert inlet is not None
            calls.append(bind_rows(site, step.step.nodes[0], inlet, gradient))
            continue
        parameter = foldable(site, update, index)
        if isinstance(step, LoopGradient) or parameter is None:
            calls += _gradient_calls(site, step, step.targets)
            continue
        fold = fold_call(plain_site(site, step), update, step, parameter, place, current)
        if fold is None:
            calls += _gradient_calls(site, step, step.targets)
            continue
        rest = [target for target in step.targets if target.node is not parameter]
        # The gradient by the other operand needs the weights as they were, so it comes first.
        calls += _gradient_calls(site, step, rest) if rest else []
        calls.append(fold)
        folded.add(parameter)
    backward = straight_line(calls, site.ports)
    others = [p for p in site.plan.trained if p not in folded and p not in by_rows]
    rest_of_update = passes(site.plan, update, others, place)
    row_passes = [
        (place[parameter], gradient, update.bind_rows(parameter, row_count(site.plan, parameter)))
        for parameter, gradient in by_rows.items()
    ]

    def train(scalars: Sequence[Scalars]) -> None:
        current[:] = update.numbers(scalars)
        backward()
        rest_of_update(current)
        for index, gradient, apply in row_passes:
            apply(gradient.rows, gradient.block, current[index])
            gradient.clear()

    return train


def _stays_sparse(site: Site, parameter: Parameter) -> bool:
    return all(node in site.sparse for node in site.plan.sparse[parameter])


def contexts_of(plan: Plan, axes: Axes) -> dict[Node, OpContext]:
    """A context for each computed node whose dynamic axis has a known number of frames."""
    return {
        node: OpContext(framed=tuple(bool(child.framed) for child in node.inputs), frames=count, saved={})
        for step in plan.steps
        for node in step.nodes
        for count in [axes.rows_for(node)]
        if count >= 0
    }
