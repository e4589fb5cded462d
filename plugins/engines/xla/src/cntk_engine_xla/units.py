"""Units of a plan: runs of steps that become one compiled function, and steps that the host computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from cntk_core.api import Node, Parameter, Plan
from cntk_core.api.engines import (
    AnyStep,
    GradientStep,
    Loop,
    LoopGradient,
    Meeting,
    Step,
    makes_axis_by_values,
    meetings_of,
)
from cntk_engine_xla.lowering import Lowering, axis_around
from cntk_engine_xla.table import OWN, Lowerings


@attrs.frozen(eq=False)
class Unit:
    """What is computed in one go.

    Attributes:
        steps: in order, forward steps before gradient steps. One alone if the host computes it.
        hosted: whether the host does.
        update: whether the parameters are updated at the end.
        seeds: whether the gradient of the criterion begins here.
        reads: nodes whose values come from outside.
        writes: nodes whose values others need afterwards.
        arrives, leaves: nodes whose gradients come from units before, and are needed afterwards.
        takes, keeps: nodes whose contexts come from units before, and are needed afterwards.
        updated: parameters that ops change (running statistics).
        axes: the dynamic axes that play a part, sorted.
        timed: those of them with loops.
        meetings: nodes whose inputs have different dynamic axes.
    """

    steps: tuple[AnyStep, ...]
    hosted: bool
    update: bool = False
    seeds: bool = False
    reads: tuple[Node, ...] = ()
    writes: tuple[Node, ...] = ()
    arrives: tuple[Node, ...] = ()
    leaves: tuple[Node, ...] = ()
    takes: tuple[Node, ...] = ()
    keeps: tuple[Node, ...] = ()
    updated: tuple[Parameter, ...] = ()
    axes: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()
    meetings: tuple[Meeting, ...] = ()

    @property
    def forward(self) -> tuple[Step | Loop, ...]:
        """The forward steps."""
        return tuple(step for step in self.steps if isinstance(step, Step | Loop))

    @property
    def backward(self) -> tuple[GradientStep | LoopGradient, ...]:
        """The gradient steps."""
        return tuple(step for step in self.steps if isinstance(step, GradientStep | LoopGradient))

    def looked_at(self, place: int, trained: Iterable[Parameter]) -> frozenset[Node]:
        """The nodes whose gradients somebody looks at after so many of the gradient steps."""
        later = {node for step in self.backward[place:] for node in (*_sources(step), *_targets(step))}
        return frozenset({*later, *self.leaves, *(trained if self.update else ())})


def units_of(
    plan: Plan,
    *,
    gradients: bool,
    update: bool = False,
    lowerings: Lowerings = OWN,
    training: bool | None = None,
    apart: bool = False,
    single: bool = False,
) -> tuple[Unit, ...]:
    """Cut a plan into units.

    Args:
        plan: what to compute.
        gradients: with the gradient steps.
        update: with the update of the trained parameters at the end.
        lowerings: how nodes become XLA.
        training: parameters that ops change are kept; by default if there are gradients.
        apart: no unit has forward and gradient steps.
        single: each step is a unit of its own, and so is the update.
    """
    hosted = hosted_steps(plan, lowerings)
    waiting = _that_can_wait(plan, hosted, gradients=gradients)
    steps: list[AnyStep] = [step for step in plan.steps if step not in waiting]
    cut: list[tuple[list[AnyStep], bool]] = []
    for step in [*steps, *(plan.gradients if gradients else ())]:
        lowered = step not in hosted
        goes_on = bool(cut) and not cut[-1][1] and not (apart and _is_gradient(step) != _is_gradient(cut[-1][0][0]))
        if lowered and goes_on and not single:
            cut[-1][0].append(step)
        else:
            cut.append(([step], not lowered))
    if update and (not cut or cut[-1][1] or single):
        cut.append(([], False))
    place = len(cut) - 1 if update else None
    cut += [([step], True) for step in plan.steps if step in waiting]
    training = gradients if training is None else training
    return tuple(_linked(plan, cut, lowerings, training=training, update=place))


def _that_can_wait(plan: Plan, hosted: frozenset[AnyStep], *, gradients: bool) -> frozenset[AnyStep]:
    """The steps of the host whose values only the user looks at: done after all others, they cut no function in two.

    They may not read parameters, which have changed by then.
    """
    back = plan.gradients if gradients else ()
    needed = {node for step in back for node in (*nodes_of(step), *step.reads)}
    found: set[AnyStep] = set()
    for step in reversed(plan.steps):
        alone = needed.isdisjoint(step.nodes) and not any(isinstance(node, Parameter) for node in step.reads)
        if step in hosted and alone and not any(makes_axis_by_values(node) for node in step.nodes):
            found.add(step)
        else:
            needed.update(step.reads)
    return frozenset(found)


def hosted_steps(plan: Plan, lowerings: Lowerings = OWN) -> frozenset[AnyStep]:
    """Return the steps of a plan that the host computes."""
    nodes = frozenset(node for step in plan.steps if not lowerings.reach(step) for node in step.nodes)
    return frozenset(step for step in (*plan.steps, *plan.gradients) if not lowerings.reach(step, nodes))


def update_unit(plan: Plan) -> Unit:
    """The update alone, with gradients from the store."""
    return Unit((), hosted=False, update=True, arrives=plan.trained)


def _linked(
    plan: Plan,
    cut: Sequence[tuple[list[AnyStep], bool]],
    lowerings: Lowerings,
    *,
    training: bool,
    update: int | None,
) -> Iterable[Unit]:
    """Find what goes from unit to unit; the update is in the unit of this number."""
    parts = [steps for steps, _ in cut]
    meetings = meetings_of(plan)
    seed = next((index for index, steps in enumerate(parts) if any(map(_is_gradient, steps))), None)
    for index, (steps, hosted) in enumerate(cut):
        before = [step for part in parts[:index] for step in part]
        after = [step for part in parts[index + 1 :] for step in part]
        made = dict.fromkeys(node for step in steps for node in _computed(step))
        used_later = {node for step in after for node in _used(step)} | set(plan.roots)
        own_targets = dict.fromkeys(node for step in steps for node in _targets(step))
        own_sources = dict.fromkeys(node for step in steps for node in _sources(step))
        earlier = {node for step in before for node in _targets(step)}
        seeds = index == seed and plan.criterion is not None
        if seed is not None and seed < index and plan.criterion is not None:
            earlier.add(plan.criterion)
        earlier.update(plan.seeded)
        later = {node for step in after for node in (*_sources(step), *_targets(step))}
        updates = index == update
        wanted = plan.trained if updates else ()
        back = [node for step in steps if _is_gradient(step) for node in nodes_of(step)]
        forward_here = dict.fromkeys(node for step in steps if not _is_gradient(step) for node in nodes_of(step))
        back_later = {node for step in after if _is_gradient(step) for node in nodes_of(step)}
        yield Unit(
            tuple(steps),
            hosted,
            update=updates,
            seeds=seeds,
            reads=tuple(dict.fromkeys(node for step in steps for node in _used(step) if node not in made)),
            writes=tuple(node for node in made if node in used_later),
            arrives=tuple(dict.fromkeys(node for node in [*own_sources, *own_targets, *wanted] if node in earlier)),
            leaves=tuple(
                node
                for node in own_targets
                if node in later or node in plan.by or (isinstance(node, Parameter) and not updates)
            ),
            takes=tuple(dict.fromkeys(node for node in back if node not in forward_here)),
            keeps=tuple(node for node in forward_here if node in back_later),
            updated=tuple(_updated(steps)) if training else (),
            axes=tuple(sorted({node.axis for node in _around(steps) if node.framed})),
            timed=tuple(sorted(timed_axes(steps, lowerings))),
            meetings=tuple(meeting for meeting in meetings if meeting[0] in forward_here),
        )


def timed_axes(steps: Iterable[AnyStep], lowerings: Lowerings = OWN) -> set[str]:
    """The dynamic axes over whose time steps compiled functions go."""
    steps = list(steps)
    loops = {nodes_of(step)[0].axis for step in steps if isinstance(step, Loop | LoopGradient)}
    found = (axis_around(node) for step in steps for node in nodes_of(step) if _loops(lowerings.of(node)))
    return loops | {axis for axis in found if axis is not None}


def _loops(lowering: Lowering | None) -> bool:
    return lowering is not None and lowering.loops


def _is_gradient(step: AnyStep) -> bool:
    return isinstance(step, GradientStep | LoopGradient)


def nodes_of(step: AnyStep) -> tuple[Node, ...]:
    """The nodes that a step computes, or whose gradients it computes."""
    if isinstance(step, GradientStep):
        return step.step.nodes
    return step.loop.nodes if isinstance(step, LoopGradient) else step.nodes


def _computed(step: AnyStep) -> tuple[Node, ...]:
    return step.writes if isinstance(step, Step | Loop) else ()


def _used(step: AnyStep) -> tuple[Node, ...]:
    if not isinstance(step, GradientStep):
        return step.reads
    # A lowering may look at inputs at which the op itself, with what it has kept, does not look again.
    given = (child for node in step.step.nodes if node.op.elementwise is None for child in node.inputs)
    return tuple(dict.fromkeys([*step.reads, *given]))


def _targets(step: AnyStep) -> tuple[Node, ...]:
    return tuple(target.node for target in step.targets) if isinstance(step, GradientStep | LoopGradient) else ()


def _sources(step: AnyStep) -> tuple[Node, ...]:
    return step.sources if isinstance(step, GradientStep | LoopGradient) else ()


def _updated(steps: Iterable[AnyStep]) -> Iterable[Parameter]:
    """The parameters that forward steps change."""
    for step in steps:
        for node in step.nodes if isinstance(step, Step | Loop) else ():
            for index in sorted(node.op.updates):
                child = node.inputs[index] if index < len(node.inputs) else None
                if isinstance(child, Parameter):
                    yield child


def _around(steps: Iterable[AnyStep]) -> Iterable[Node]:
    for step in steps:
        for node in nodes_of(step):
            yield node
            yield from node.inputs
