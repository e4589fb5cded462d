"""A plan bound to arrays for given numbers of frames: the straight-line code of its forward and backward parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from cntk_core.api import Kernel, Parameter
from cntk_core.api.engines import (
    AnyStep,
    GradientStep,
    Loop,
    LoopGradient,
    Stage,
    Step,
    Target,
    Told,
    ask_kernels,
    ask_kernels_for_gradient,
    called_one_by_one,
    is_elementwise,
    kernels,
    makes_axis_by_values,
    reaches_open,
    row_count,
)
from cntk_engine_cpu import (
    convolution,
    elementwise,
    elementwise_gradient,
    fallback,
    lattices,
    layer_norm,
    loop_kernels,
    loops,
    normalization,
    pooling,
    products,
    rowwise,
    sparse,
)
from cntk_engine_cpu.folds import fold_call, foldable
from cntk_engine_cpu.loop_backward import BackwardWriter
from cntk_engine_cpu.loop_forward import ForwardWriter
from cntk_engine_cpu.op_kernels import OpKernel, by_description, listed
from cntk_engine_cpu.passes import passes, rows_alone
from cntk_engine_cpu.site import Call, Site
from cntk_engine_cpu.sparse import RowGradient, bind_rows, inlet_of
from cntk_engine_cpu.straight import straight_line
from cntk_engine_cpu.update import Numbers, Scalars, Update

KERNELS: tuple[Kernel, ...] = (
    *kernels(
        "cpu",
        ["Times", "TransposeTimes"],
        products.bind_forward,
        products.bind_gradient,
        in_loop=ForwardWriter.product,
        in_loop_gradient=BackwardWriter.product,
    ),
    *kernels(
        "cpu",
        ["DiagTimes"],
        by_description,
        in_loop=ForwardWriter.diagonal_times,
        in_loop_gradient=BackwardWriter.diagonal_times,
    ),
    *kernels(
        "cpu",
        ["RowStack"],
        by_description,
        in_loop=ForwardWriter.stack,
        in_loop_gradient=BackwardWriter.stack,
        takes_parts=True,
    ),
    *kernels("cpu", ["LookupTable"], sparse.bind_look_up, sparse.bind_look_up_gradient),
    *kernels("cpu", ["CrossEntropyWithSoftmax"], rowwise.bind_cross_entropy, rowwise.bind_cross_entropy_gradient),
    *kernels("cpu", ["ClassificationError"], rowwise.bind_classification_error),
    *kernels(
        "cpu",
        ["Convolution"],
        convolution.bind_forward,
        convolution.bind_gradient,
        channels_last=True,
        begins=convolution.writes_channels_last,
    ),
    *pooling.KERNELS,
    *layer_norm.KERNELS,
    *lattices.KERNELS,
    *kernels(
        "cpu",
        ["BatchNormalization"],
        normalization.bind_forward,
        normalization.bind_gradient,
        channels_last=True,
        follows=lambda node: True,
    ),
)
"""The engine's own kernels."""


class Bound:
    """The code for given numbers of frames. Its parts are made when they are first wanted.

    Args:
        site: the arrays.
        update: the rule, for :attr:`train`.
        stage: which forward steps.
        before: the code of the stage before.
        told: who wants to know what each step takes; None for code that does not ask the time.
    """

    def __init__(
        self, site: Site, update: Update | None, stage: Stage, before: Bound | None = None, told: Told | None = None
    ) -> None:
        self.site = site
        self.stage = stage
        self.before = before
        self._update = update
        self._told = told
        steps = site.plan.steps[stage.first : stage.end]
        self.forward = _one_after_the_other(site, [(step, _forward_calls(site, step)) for step in steps], told)

    @functools.cached_property
    def backward(self) -> Callable[[], None]:
        """Computes all gradients, after ``forward``."""
        site = self.site
        steps: list[Part] = [(step, _gradient_calls(site, step, step.targets)) for step in site.plan.gradients]
        return _one_after_the_other(site, [(None, _begin(site)), *steps], self._told)

    @functools.cached_property
    def train(self) -> Callable[[Sequence[Scalars]], None] | None:
        """Computes gradients and applies the update, folded where possible; called with the numbers of each parameter.

        None without an update rule.
        """
        return _train(self.site, self._update, self._told) if self._update is not None else None


Part: TypeAlias = tuple[AnyStep | None, list[Call]]
"""A step, None for what is no step, and the calls that do it."""


def _one_after_the_other(site: Site, parts: Sequence[Part], told: Told | None) -> Callable[[], None]:
    """Return a function that makes the calls of all steps."""
    if told is None:
        return straight_line([call for _, calls in parts for call in calls], site.ports)
    return called_one_by_one([(step, straight_line(calls, site.ports)) for step, calls in parts if calls], told)


def _forward_calls(site: Site, step: Step | Loop) -> list[Call]:
    if isinstance(step, Loop):
        compiled = None if reaches_open(step) else loop_kernels.bind_forward(site, step)
        return [compiled if compiled is not None else loops.bind_forward(site, step)]
    if step in site.absorbed:
        return []
    if makes_axis_by_values(step.nodes[0]):
        return [fallback.bind_new_axis(site, step)]
    if reaches_open(step):
        return [fallback.bind_forward(site, step)]
    found = ask_kernels(step, site.op_kernels.by_op, site.chosen, lambda kernel: _forward_of(kernel, site, step))
    if found is None and is_elementwise(step):
        found = elementwise.bind_forward(site, step)
    return found if found is not None else [fallback.bind_forward(site, step)]


def _forward_of(kernel: OpKernel, site: Site, step: Step) -> list[Call] | None:
    if site.images is None or kernel.channels_last:
        found = kernel.forward(site, step)
        return None if found is None else listed(found)
    calls: list[Call] = []
    copied = set(site.images.copies)
    found = kernel.forward(site.images.plain_site(site, step, calls), step)
    if found is None:
        for node in set(site.images.copies) - copied:  # nobody fills them
            del site.images.copies[node]
        return None
    return [*calls, *listed(found)]


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
    found = ask_kernels_for_gradient(
        part, site.op_kernels.by_op, site.chosen, lambda kernel: _gradient_of(kernel, site, part)
    )
    if found is None and is_elementwise(step.step):
        found = elementwise_gradient.bind_gradient(site, part)
    return found if found is not None else [fallback.bind_gradient(site, part)]


def _gradient_of(kernel: OpKernel, site: Site, step: GradientStep) -> list[Call] | None:
    if kernel.gradient is None:
        return None
    after: list[Call] = []
    if site.images is not None and not kernel.channels_last:
        site, step = site.images.plain_gradients(plain_site(site, step), step, after)
    found = kernel.gradient(site, step)
    return None if found is None else [*listed(found), *after]


def plain_site(site: Site, step: GradientStep) -> Site:
    """A site where what a step reads lies plain: in the copies that the forward part has made."""
    return site if site.images is None else site.images.plain_site(site, step.step, [])


def _begin(site: Site) -> list[Call]:
    """The call that has the criterion's gradient begin with ones again, where a run adds to them."""
    plan = site.plan
    return [Call(site.gradients[plan.criterion].fill, (1.0,))] if plan.criterion is not None and plan.fed_back else []


def _train(site: Site, update: Update, told: Told | None) -> Callable[[Sequence[Scalars]], None]:
    """The backward part with folded updates, then the pass over all other parameters."""
    place = {parameter: index for index, parameter in enumerate(site.plan.trained)}
    current: list[Numbers] = []
    parts: list[Part] = [(None, _begin(site))]
    folded: set[Parameter] = set()
    by_rows = {
        parameter: RowGradient() for parameter in rows_alone(site.plan, update) if _stays_sparse(site, parameter)
    }
    for index, step in enumerate(site.plan.gradients):
        gradient = next((by_rows[target.node] for target in step.targets if target.node in by_rows), None)
        if gradient is not None and isinstance(step, GradientStep):
            inlet = inlet_of(site, step.step.nodes[0])
            assert inlet is not None
            parts.append((step, [bind_rows(site, step.step.nodes[0], inlet, gradient)]))
            continue
        parameter = foldable(site, update, index)
        if isinstance(step, LoopGradient) or parameter is None:
            parts.append((step, _gradient_calls(site, step, step.targets)))
            continue
        fold = fold_call(plain_site(site, step), update, step, parameter, place, current)
        if fold is None:
            parts.append((step, _gradient_calls(site, step, step.targets)))
            continue
        rest = [target for target in step.targets if target.node is not parameter]
        # The gradient by the other operand needs the weights as they were, so it comes first.
        parts.append((step, [*(_gradient_calls(site, step, rest) if rest else []), fold]))
        folded.add(parameter)
    backward = _one_after_the_other(site, parts, told)
    others = [p for p in site.plan.trained if p not in folded and p not in by_rows]
    rest_of_update = passes(site.plan, update, others, place)
    row_passes = [
        (place[parameter], gradient, update.bind_rows(parameter, row_count(site.plan, parameter)))
        for parameter, gradient in by_rows.items()
    ]

    def update_others() -> None:
        rest_of_update(current)
        for index, gradient, apply in row_passes:
            apply(gradient.rows, gradient.block, current[index])
            gradient.clear()

    if told is not None:
        update_others = called_one_by_one([(None, update_others)], told)

    def train(scalars: Sequence[Scalars]) -> None:
        current[:] = update.numbers(scalars)
        backward()
        update_others()

    return train


def _stays_sparse(site: Site, parameter: Parameter) -> bool:
    return all(node in site.sparse for node in site.plan.sparse[parameter])
