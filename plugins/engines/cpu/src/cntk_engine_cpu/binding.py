"""A plan bound to arrays for given numbers of frames: the straight-line code of its forward and backward parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import (
    GradientStep,
    Loop,
    LoopGradient,
    Node,
    OpContext,
    Parameter,
    Plan,
    Step,
    Target,
    is_open,
    makes_axis_by_values,
)
from cntk_engine_cpu import (
    convolution,
    elementwise,
    fallback,
    loop_kernels,
    loops,
    normalization,
    pooling,
    products,
    rowwise,
    sparse,
)
from cntk_engine_cpu.site import Call, Site, elements_of
from cntk_engine_cpu.sparse import RowGradient, bind_rows, inlet_of
from cntk_engine_cpu.stages import Stage
from cntk_engine_cpu.straight import straight_line
from cntk_engine_cpu.update import Numbers, Scalars, Update, runs_of

PANEL_ELEMENTS = 131072
"""Most weights in one panel of a folded update: they and their slot stay in the second-level cache."""

LONGEST_ROW = 4096
"""Columns from which rows are cut, too."""

BAND_WIDTH = 1024
"""About how many columns a band then has."""

PANEL_OPERAND = 262144
"""Most numbers of the operand that every band of rows reads again: more are not in the cache any more by then."""

FOLD_BY_PANELS = 196608
"""Weights from which the folded update goes panel by panel. For fewer a second product costs more than it saves."""

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
        compiled = None if _reaches_open(step) else loop_kernels.bind_forward(site, step)
        return [compiled if compiled is not None else loops.bind_forward(site, step)]
    if step in site.absorbed:
        return []
    name = step.nodes[0].op.name
    if makes_axis_by_values(step.nodes[0]):
        return [fallback.bind_new_axis(site, step)]
    if _reaches_open(step):
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


def _reaches_open(step: Step | Loop) -> bool:
    """Whether a step has values with a dimension that every minibatch has its own of; no kernel takes them."""
    return any(is_open(node) for node in (*step.nodes, *step.reads))


def _loop_gradient(site: Site, step: LoopGradient) -> Call:
    compiled = loop_kernels.bind_gradient(site, step)
    return compiled if compiled is not None else loops.bind_gradient(site, step)


def _gradient_calls(site: Site, step: GradientStep | LoopGradient, targets: Sequence[Target]) -> list[Call]:
    """The calls for some targets of a step: one for all, or one for each of a product."""
    if isinstance(step, LoopGradient):
        return [_loop_gradient(site, step)]
    part = step if len(targets) == len(step.targets) else attrs.evolve(step, targets=tuple(targets))
    if _reaches_open(step.step):
        return [fallback.bind_gradient(site, part)]
    if elementwise.is_elementwise(step.step):
        found = elementwise.bind_gradient(site, part)
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
        parameter = _foldable(site, update, index)
        if isinstance(step, LoopGradient) or parameter is None:
            calls += _gradient_calls(site, step, step.targets)
            continue
        fold = _fold_call(plain_site(site, step), update, step, parameter, place, current)
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
    rest_of_update = _passes(site.plan, update, others, place)
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


def _foldable(site: Site, update: Update, index: int) -> Parameter | None:
    """The parameter whose update can be folded into the product of a gradient step."""
    step = site.plan.gradients[index]
    if (
        isinstance(step, LoopGradient)
        or update.fold is None
        or step.step.nodes[0].op.name not in products.NAMES
        or len(step.step.nodes) != 1
        or _reaches_open(step.step)
    ):
        return None
    left = step.step.nodes[0].inputs[0]
    if inlet_of(site, step.step.nodes[0]) is not None or left in rows_alone(site.plan, update):
        return None
    if not isinstance(left, Parameter) or all(target.node is not left for target in step.targets):
        return None
    read_later = any(left in later.reads for later in site.plan.gradients[index + 1 :])
    return left if site.plan.sole_writer(left) and not read_later else None


def _fold_call(
    site: Site,
    update: Update,
    step: GradientStep,
    parameter: Parameter,
    place: Mapping[Parameter, int],
    current: list[Numbers],
) -> Call | None:
    assert update.fold is not None
    slot = update.store.slot(update.fold.slot, parameter)
    first, end = update.store.range(parameter)
    index = place[parameter]
    if end - first >= FOLD_BY_PANELS:
        panels = _panels(site, update, step, parameter)
        if panels is not None:
            return Call(_run_panels(update, panels, index, current))
    product = products.weight_product(site, step, slot, parameter)
    if product is None:
        return None
    rest, factors = update.bind(first, end, folded=True), update.factors()

    def run() -> None:
        numbers = current[index]
        product(*factors(numbers))
        rest(numbers)

    return Call(run)


Panel = tuple[Callable[[float, float], None], Callable[[Numbers], None]]


def _panels(site: Site, update: Update, step: GradientStep, parameter: Parameter) -> list[Panel] | None:
    """Products and passes for bands of rows of the stored weights, each small enough for the cache."""
    assert update.fold is not None
    (node,) = step.step.nodes
    slot = update.store.slot(update.fold.slot, parameter)
    found = products.matrices(site, node, slot, site.values[node.inputs[1]])
    if found is None:
        return None
    stored, rows = found
    gradient = products.results(node, site.gradients[node], stored)
    left, right = (gradient, rows) if node.op.name == "TransposeTimes" else (rows, gradient)
    start, _ = update.store.range(parameter)
    total_rows, length = stored.shape
    cut = list(bands(total_rows, length, split_rows=site.gemm.takes_bands(stored.dtype)))
    if right.shape[0] * (cut[0][1].stop - cut[0][1].start) > PANEL_OPERAND:
        return None
    panels = []
    for rows_of_band, columns_of_band in cut:
        product = site.gemm.bind(
            left[:, rows_of_band],
            right[:, columns_of_band],
            stored[rows_of_band, columns_of_band],
            transpose_a=True,
            ports=site.ports,
        )
        first = start + rows_of_band.start * length + columns_of_band.start
        height, width = rows_of_band.stop - rows_of_band.start, columns_of_band.stop - columns_of_band.start
        panels.append((product, update.bind_band(first, height, width, length)))
    return panels


def bands(rows: int, columns: int, *, split_rows: bool) -> Iterator[tuple[slice, slice]]:
    """Cut a matrix into bands of at most about :data:`PANEL_ELEMENTS`, of nearly equal size.

    Whole rows are cut only where they are long: a product of a few long rows would mostly copy its other operand.
    """
    width = columns
    if split_rows and columns > LONGEST_ROW:
        width = -(-columns // -(-columns // BAND_WIDTH))
    count = max(1, -(-rows * width // PANEL_ELEMENTS))
    height = -(-rows // count)
    for left in range(0, columns, width):
        for top in range(0, rows, height):
            yield slice(top, min(top + height, rows)), slice(left, min(left + width, columns))


def _run_panels(update: Update, panels: Sequence[Panel], index: int, current: list[Numbers]) -> Callable[[], None]:
    factors = update.factors()

    def run() -> None:
        numbers = current[index]
        alpha, beta = factors(numbers)
        for product, rest in panels:
            product(alpha, beta)
            rest(numbers)

    return run


def rows_alone(plan: Plan, update: Update) -> tuple[Parameter, ...]:
    """The parameters of which an update changes only the rows that occur."""
    return () if update.rule.everywhere else tuple(plan.sparse)


def row_count(plan: Plan, parameter: Parameter) -> int:
    """Rows of a parameter with a sparse gradient."""
    return elements_of(plan.sparse[parameter][0])


def _stays_sparse(site: Site, parameter: Parameter) -> bool:
    return all(node in site.sparse for node in site.plan.sparse[parameter])


def _passes(
    plan: Plan, update: Update, parameters: Sequence[Parameter], place: Mapping[Parameter, int]
) -> Callable[[Sequence[Numbers]], None]:
    """The whole rule over some parameters: as few passes as their numbers allow."""
    by_rows = [parameter for parameter in rows_alone(plan, update) if parameter in parameters]
    parameters = [parameter for parameter in parameters if parameter not in by_rows]
    touched = [_touched_rows(plan, update, parameter, place[parameter]) for parameter in by_rows]
    # A mean goes over one parameter, so that a rule with means never runs over several together.
    alike = not update.rule.means
    together = [update.bind(first, end) for first, end in runs_of(update.store, parameters)] if alike else []
    single = [(place[parameter], update.bind(*update.store.range(parameter))) for parameter in parameters]

    def run(numbers: Sequence[Numbers]) -> None:
        for update_rows in touched:
            update_rows(numbers)
        if not single:
            return
        first = numbers[single[0][0]]
        if alike and all(numbers[index] is first or numbers[index] == first for index, _ in single):
            for apply in together:
                apply(first)
        else:
            for index, apply in single:
                apply(numbers[index])

    return run


def _touched_rows(plan: Plan, update: Update, parameter: Parameter, index: int) -> Callable[[Sequence[Numbers]], None]:
    """The rule over the rows of a parameter that its gradient in the store has come to."""
    count = row_count(plan, parameter)
    apply = update.bind_rows(parameter, count)

    def run(numbers: Sequence[Numbers]) -> None:
        rows = update.store.take_touched(parameter, count)
        apply(rows, update.store.gradient(parameter).reshape(count, -1)[rows], numbers[index])

    return run


def whole_update(site_plan: Plan, update: Update) -> Callable[[Sequence[Scalars]], None]:
    """The update of all trained parameters with the gradients in the store."""
    place = {parameter: index for index, parameter in enumerate(site_plan.trained)}
    apply = _passes(site_plan, update, site_plan.trained, place)

    def run(scalars: Sequence[Scalars]) -> None:
        apply(update.numbers(scalars))

    return run


def contexts_of(plan: Any, frames: Mapping[str, int]) -> dict[Node, OpContext]:
    """A context for each computed node whose dynamic axis has a known number of frames."""
    return {
        node: OpContext(framed=tuple(bool(child.framed) for child in node.inputs), frames=count, saved={})
        for step in plan.steps
        for node in step.nodes
        for count in [_frames_of(node, frames)]
        if count >= 0
    }


def _frames_of(node: Node, frames: Mapping[str, int]) -> int:
    """Rows on a node's axis, or on that of its first input with one; -1 if they are not known yet."""
    if node.framed and not makes_axis_by_values(node):
        return frames.get(node.axis, -1)
    axes = [child.axis for child in node.inputs if child.framed]
    return frames.get(axes[0], -1) if axes else 1


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Uninitialised storage aligned to 64 bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    size = np.dtype(dtype).itemsize
    raw = np.empty(count * size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + count * size].view(dtype).reshape(shape)
