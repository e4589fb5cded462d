"""Operations on sequences, batches and whole shapes: a random sketch of each, and how ours is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk_builder_python import Term, sequence, stop_gradient, tanh
from network_inputs import BATCH, OTHER, PARAMETER, SEQUENCE, Sketch, Stream
from original_cases import Random, shape_of

Settings = Any
Ours = Callable[..., Any]
Make = Callable[[Random], Sketch]


def op(name: str, **attributes: Any) -> Ours:
    """Ours, where it is one operation with the same settings in all cases."""
    return lambda settings, *terms: terms[0].graph.apply(name, *terms, **attributes)


def _framed(random: Random, **settings: Any) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2)),), settings)


def _with_condition(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2)), Stream((1,), kind="some", wanted=False)))


def _delayed(random: Random) -> Sketch:
    settings = {"steps": int(random.randint(1, 4)), "initial": float(random.randint(-2, 3))}
    return Sketch((Stream(shape_of(random, 1, 2)),), settings)


def _delayed_from(random: Random) -> Sketch:
    shape = shape_of(random, 1, 2)
    return Sketch((Stream(shape), Stream(shape, BATCH)))


def _loop(random: Random) -> Sketch:
    size, units = (int(number) for number in random.randint(1, 5, size=2))
    return Sketch((Stream((size,)), Stream((size, units), PARAMETER), Stream((units, units), PARAMETER)))


def _elman(settings: Settings, x: Term, weights: Term, back: Term) -> Term:
    before = x.graph.feedback(settings.get("steps", 1), initial_state=0.0)
    return before.resolve_to(tanh(x @ weights + before @ back))


def _broadcast(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2), BATCH), Stream((1,), wanted=False)))


def _unpacked(random: Random) -> Sketch:
    return _framed(random, padding=float(random.randint(-2, 3)))


def _to_sequence(like: bool) -> Make:
    def make(random: Random) -> Sketch:
        lengths = tuple(int(frames) for frames in random.randint(1, 6, size=random.randint(1, 5)))
        steps = Stream((max(lengths), *shape_of(random, 1, 2)), BATCH)
        if like:
            return Sketch((steps, Stream((1,), wanted=False)), lengths=lengths)
        given = [[float(frames)] for frames in lengths]
        return Sketch((steps, Stream((1,), BATCH, wanted=False)), values={1: given}, lengths=lengths)

    return make


def _to_whole_sequence(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 2, 3), BATCH),))


def _matrix_of_frames(random: Random) -> Sketch:
    lengths = tuple(int(frames) for frames in random.randint(2, 6, size=random.randint(1, 5)))  # not one frame alone
    return Sketch((Stream((int(random.randint(1, 6)),)), Stream((1,))), lengths=lengths)


def _over_batch(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2), BATCH, "distinct"),))


def _over_all(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2), SEQUENCE if random.randint(2) else BATCH),))


def _reduced(operation: str, axis: int) -> Ours:
    return lambda settings, x: x.graph.apply("ReduceElements", x, reduction_op=operation, axis=axis)


def _range_of_steps(random: Random) -> Sketch:
    lengths = tuple(int(frames) for frames in random.randint(3, 7, size=random.randint(1, 5)))
    begin, end = ((0, 2), (1, 3), (0, -1), (1, -1), (-2, 0), (-3, -1), (1, 0), (-1, 0))[random.randint(8)]
    return Sketch((Stream(shape_of(random, 1, 2)),), {"begin": begin, "end": end}, lengths=lengths)


def _two_axes(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 1, 2)), Stream((2,), OTHER, wanted=False)))


def _last_on_other(settings: Settings, x: Term, other: Term) -> Term:
    return sequence.broadcast_as(sequence.last(x), other)


def _scattered(settings: Settings, x: Term, condition: Term) -> Term:
    return sequence.scatter(sequence.gather(x, condition), condition)


MAKERS: dict[str, tuple[Make, Ours]] = {
    "Where": (lambda random: Sketch((Stream((1,), kind="some", wanted=False),)), lambda s, c: sequence.where(c)),
    "GatherPacked": (_with_condition, lambda s, x, c: sequence.gather(x, c)),
    "ScatterPacked": (_with_condition, _scattered),
    "sequence.first": (_framed, lambda s, x: sequence.first(x)),
    "sequence.last": (_framed, lambda s, x: sequence.last(x)),
    "sequence.is_first": (_framed, lambda s, x: sequence.is_first(x)),
    "sequence.is_last": (_framed, lambda s, x: sequence.is_last(x)),
    "sequence.slice": (_range_of_steps, lambda s, x: sequence.slice(x, s["begin"], s["end"])),
    "PastValue": (_delayed, lambda s, x: sequence.past_value(x, s["initial"], s["steps"])),
    "FutureValue": (_delayed, lambda s, x: sequence.future_value(x, s["initial"], s["steps"])),
    "PastValue from a state": (_delayed_from, lambda s, x, state: sequence.past_value(x, state)),
    "FutureValue from a state": (_delayed_from, lambda s, x, state: sequence.future_value(x, state)),
    "PastValue in a loop": (_loop, _elman),
    "ReconcileDynamicAxis": (_broadcast, lambda s, x, like: sequence.broadcast_as(x, like)),
    "ReconcileDynamicAxis of other sequences": (_two_axes, _last_on_other),
    "UnpackSequence": (_unpacked, lambda s, x: sequence.unpack(x, s["padding"])),
    "ToSequence": (_to_whole_sequence, lambda s, x: sequence.to_sequence(x)),
    "ToSequence by lengths": (_to_sequence(False), lambda s, x, lengths: sequence.to_sequence(x, lengths)),
    "ToSequenceLike": (_to_sequence(True), lambda s, x, like: sequence.to_sequence_like(x, like)),
    "Times over sequences": (_matrix_of_frames, lambda s, x, y: sequence.times(x, y)),
    "sequence.softmax": (_framed, lambda s, x: sequence.softmax(x)),
    "sequence.reduce_sum": (_framed, lambda s, x: sequence.reduce_sum(x)),
    "sequence.reduce_max": (_framed, lambda s, x: sequence.reduce_max(x)),
    **{
        f"ReduceElements {name} over the batch": (_over_batch, _reduced(name, -3))
        for name in ("Sum", "Mean", "Max", "Min", "LogSum", "Prod")
    },
    **{
        f"ReduceElements {name} over all axes": (_over_all, _reduced(name, -1))
        for name in ("Sum", "Mean", "Max", "Min", "LogSum", "Prod")
    },
    "StopGradient": (_framed, lambda s, x: x * stop_gradient(x)),
}
"""By name, a random sketch and our function ``(settings, *terms) -> term or terms``."""
