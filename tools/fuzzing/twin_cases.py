"""Draws networks, data and learners for `tools/fuzz_original.py`, as descriptions that `twins.py` builds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs

ELEMENTWISE = (
    *("sigmoid", "tanh", "relu", "abs", "negate", "square", "sin", "cos", "atan", "asinh", "softplus", "softsign"),
    *("hard_sigmoid", "elu", "selu", "leaky_relu", "floor", "ceil", "round", "stop_gradient", "alias", "exp", "sinh"),
    *("cosh", "log", "sqrt", "reciprocal", "acos", "asin", "atanh"),
)
"""Not ``tan``: the original takes the tangent for its argument when it computes the gradient."""
PAIRS = (
    *("plus", "minus", "element_times", "element_divide", "element_max", "element_min", "log_add_exp", "greater"),
    *("less", "equal", "not_equal", "greater_equal", "less_equal"),
)
"""Not ``pow``: where its base is no leaf, the original computes gradients as if the base were 1."""
REDUCTIONS = ("sum", "mean", "max", "min", "log_sum_exp", "l1", "l2", "sum_square", "argmax", "argmin")
LOSSES = ("squared_error", "cosine_distance", "softmax_cross_entropy", "binary_cross_entropy")
LEARNERS = ("sgd", "momentum_sgd", "nesterov", "adagrad", "rmsprop", "adam", "fsadagrad", "adadelta")
SMALL = 60
"""Elements of a value at most: findings are read by people."""
Node = dict[str, Any]


@attrs.frozen
class Value:
    """A value of a network: its number, the shape of a sample, and whether there is one for each frame."""

    place: int
    shape: tuple[int, ...]
    sequence: bool

    @property
    def size(self) -> int:
        """Its elements."""
        size = 1
        for one in self.shape:
            size *= one
        return size


class Drawn:
    """A network under construction.

    Args:
        seed: all that is drawn comes from it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self._makers: tuple[Callable[[], None], ...] = (
            *(self._one, self._one, self._two, self._two, self._softmax, self._clip, self._where, self._reduce),
            *(self._times, self._times, self._reshape, self._transpose, self._slice, self._splice, self._pad),
            *(self._delay, self._delay, self._over_time, self._broadcast, self._convolution, self._transposed),
            *(
                self._pooling,
                self._layer_norm,
                self._batch_norm,
                self._recurrence,
                self._recurrence,
                self._with_parameter,
            ),
        )

    def case(self) -> Node:
        """Return the description."""
        sequences = self.pick.random() < 0.6
        for number in range(self.pick.choice((1, 1, 2, 3))):
            self._input(number, sequence=sequences and self.pick.random() < 0.8)
        for _ in range(self.pick.randint(2, 12)):
            self.pick.choice(self._makers)()
        shown = [one.place for one in self.values if self.nodes[one.place]["kind"] not in ("input", "parameter")][-6:]
        self._loss()
        normalized = any(one["kind"] == "batch_norm" for one in self.nodes)
        least = 2 if normalized else 1  # of one sample the original's variance is not a number
        return {
            "seed": self.seed,
            "precision": "float"
            if any(one["sparse"] for one in self.inputs)
            else self.pick.choice(("double", "double", "float")),
            "inputs": self.inputs,
            "nodes": self.nodes,
            "shown": shown or [len(self.nodes) - 1],
            # the original counts the gaps behind shorter sequences as zeros in a batch's mean and variance
            "even": normalized,
            "samples": self.pick.randint(least, 4),
            "longest": self.pick.randint(1, 6),
            "steps": [[self.pick.randint(least, 5), self.pick.randint(1, 6)] for _ in range(self.pick.randint(1, 4))],
            "learner": self._learner(),
        }

    def _input(self, number: int, *, sequence: bool) -> None:
        sparse = self.pick.random() < 0.15
        rank = 1 if sparse else self.pick.choice((0, 1, 1, 1, 2, 3, 3))
        shape = [self.pick.randint(1 + sparse, 5) for _ in range(rank)]
        self.inputs.append({"name": f"i{number}", "shape": shape, "sequence": sequence, "sparse": sparse})
        self._add({"kind": "input", "number": number, "inputs": []}, tuple(shape), sequence)
        if sparse:  # the original's sparse values go into products, and into little else
            self._product(self.values.pop(), 1)

    def _add(self, node: Node, shape: tuple[int, ...], sequence: bool) -> Value:
        self.nodes.append(node)
        self.values.append(Value(len(self.nodes) - 1, shape, sequence))
        return self.values[-1]

    def _node(
        self, kind: str, given: list[Value], made: tuple[int, ...], /, *, sequence: bool | None = None, **said: object
    ) -> Value:
        node = {"kind": kind, "inputs": [one.place for one in given], **said}
        return self._add(node, made, any(one.sequence for one in given) if sequence is None else sequence)

    def _any(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        fitting = [one for one in self.values if fits(one)]
        # later values more often: networks are to be deep
        return self.pick.choice(fitting[-4:] if self.pick.random() < 0.7 else fitting) if fitting else None

    def _one(self) -> None:
        if (x := self._any()) is not None:
            self._node("one", [x], x.shape, op=self.pick.choice(ELEMENTWISE))

    def _two(self) -> None:
        if (x := self._any()) is None or (y := self._partner(x)) is None:
            return
        both = [x, y] if self.pick.random() < 0.5 else [y, x]
        self._node("two", both, broadcast(x.shape, y.shape) or (), op=self.pick.choice(PAIRS))

    def _partner(self, x: Value) -> Value | None:
        return self._any(lambda y: y.sequence == x.sequence and broadcast(x.shape, y.shape) is not None)

    def _with_parameter(self) -> None:
        if (x := self._any()) is None:
            return
        shape = tuple(1 if self.pick.random() < 0.2 else one for one in x.shape[self.pick.randint(0, len(x.shape)) :])
        y = self._add({"kind": "parameter", "shape": shape, "inputs": []}, shape, sequence=False)
        self.values.pop()  # used here only: alone it has no batch
        both = [x, y] if self.pick.random() < 0.5 else [y, x]
        self._node("two", both, broadcast(x.shape, shape) or (), op=self.pick.choice(PAIRS), sequence=x.sequence)

    def _softmax(self) -> None:
        if (x := self._any(lambda one: bool(one.shape))) is not None:
            axis = self.pick.choice((None, *range(len(x.shape)), -1))
            self._node(
                "softmax",
                [x],
                x.shape,
                op=self.pick.choice(("softmax", "log_softmax", "hardmax")[: 3 if axis is None else 2]),
                axis=axis,
            )

    def _clip(self) -> None:
        if (x := self._any()) is not None:
            self._node("clip", [x], x.shape, least=self.pick.choice((-1.0, -0.3)), most=self.pick.choice((0.4, 1.0)))

    def _where(self) -> None:
        if (x := self._any()) is not None and (
            y := self._any(lambda one: (one.shape, one.sequence) == (x.shape, x.sequence))
        ):
            self._node("where", [x, y], x.shape)

    def _reduce(self) -> None:
        if (x := self._any(lambda one: bool(one.shape))) is None:
            return
        op, axis, keep = self.pick.choice(REDUCTIONS), self.pick.randrange(len(x.shape)), self.pick.random() < 0.5
        shape = list(x.shape)
        if keep or op.startswith("arg"):
            shape[axis] = 1
        else:
            del shape[axis]
        said = axis - len(x.shape) if self.pick.random() < 0.5 else axis
        self._node("reduce", [x], tuple(shape), op=op, axis=said, keepdims=keep)

    def _times(self) -> None:
        if (x := self._any(lambda one: bool(one.shape))) is not None:
            self._product(x, self.pick.choice((1, 1, 1, 2)))

    def _product(self, x: Value, outer: int) -> None:
        inner = self.pick.randint(1, len(x.shape))
        made = tuple(self.pick.randint(1, 5) for _ in range(outer))
        transposed = outer == 1 and len(x.shape) == 1 and self.pick.random() < 0.15
        if transposed:
            self._node("times", [x], made, shape=[*made, *x.shape], transposed=True, outer=1)
        else:
            shape = (*x.shape[: len(x.shape) - inner], *made)
            self._node(
                "times", [x], shape, shape=[*x.shape[len(x.shape) - inner :], *made], transposed=False, outer=outer
            )

    def _reshape(self) -> None:
        if (x := self._any()) is not None:
            divisors = [one for one in range(1, x.size + 1) if x.size % one == 0]
            first = self.pick.choice(divisors)
            shape = self.pick.choice(((x.size,), (first, x.size // first), (1, x.size), (x.size, 1)))
            said = list(shape)
            if self.pick.random() < 0.3:
                said[self.pick.randrange(len(said))] = -1
            self._node("reshape", [x], shape, shape=said)

    def _transpose(self) -> None:
        if (x := self._any(lambda one: len(one.shape) > 1)) is not None:
            order = list(range(len(x.shape)))
            self.pick.shuffle(order)
            self._node("transpose", [x], tuple(x.shape[one] for one in order), order=order)

    def _slice(self) -> None:
        if (x := self._any(lambda one: any(dim > 1 for dim in one.shape))) is None:
            return
        axis = self.pick.choice([place for place, dim in enumerate(x.shape) if dim > 1])
        dim = x.shape[axis]
        begin = self.pick.randrange(dim)
        end = self.pick.randint(begin + 1, dim)
        step = min(self.pick.choice((1, 1, 1, 2, 3)), end - begin)
        shape = (*x.shape[:axis], len(range(begin, end, step)), *x.shape[axis + 1 :])
        if self.pick.random() < 0.3:
            begin -= dim
            end = 0 if end == dim else end - dim
        self._node("slice", [x], shape, axis=axis, begin=begin, end=end, step=step)

    def _splice(self) -> None:
        if (x := self._any(lambda one: bool(one.shape))) is None:
            return
        axis = self.pick.randrange(len(x.shape))

        def alike(y: Value) -> bool:
            rest = [one.shape[:axis] + one.shape[axis + 1 :] for one in (x, y)]
            return len(y.shape) == len(x.shape) and rest[0] == rest[1] and y.sequence == x.sequence

        others = [y for _ in range(self.pick.randint(1, 2)) if (y := self._any(alike)) is not None]
        width = x.shape[axis] + sum(one.shape[axis] for one in others)
        if x.size * width <= SMALL * x.shape[axis]:
            self._node("splice", [x, *others], (*x.shape[:axis], width, *x.shape[axis + 1 :]), axis=axis)

    def _pad(self) -> None:
        if (x := self._any(lambda one: bool(one.shape))) is None:
            return
        mode = self.pick.choice((0, 0, 1, 2))  # constant, reflect, symmetric
        most = [2 if not mode else dim - (mode == 1) for dim in x.shape]
        pattern = [[self.pick.randint(0, min(2, limit)) for _ in range(2)] for limit in most]
        shape = tuple(dim + sum(pair) for dim, pair in zip(x.shape, pattern, strict=True))
        if Value(0, shape, sequence=False).size <= SMALL:
            self._node("pad", [x], shape, pattern=pattern, mode=mode, value=self.pick.choice((0, 0.5)))

    def _delay(self) -> None:
        if (x := self._any(lambda one: one.sequence)) is not None:
            self._node(
                "delay", [x], x.shape, steps=self.pick.choice((1, 1, -1, 2, -2, 3)), initial=self.pick.choice((0, 0.1))
            )

    def _over_time(self) -> None:
        if (x := self._any(lambda one: one.sequence)) is None:
            return
        op = self.pick.choice(
            ("first", "last", "is_first", "is_last", "sequence_sum", "sequence_max", "sequence_softmax")
        )
        stays = op in ("is_first", "is_last", "sequence_softmax")
        self._node("one", [x], () if op.startswith("is_") else x.shape, sequence=stays, op=op)

    def _broadcast(self) -> None:
        x, like = self._any(lambda one: not one.sequence), self._any(lambda one: one.sequence)
        if x is not None and like is not None:
            self._node("two", [x, like], x.shape, op="broadcast_as")

    def _image(self) -> Value | None:
        return self._any(lambda one: len(one.shape) == 3)

    def _windows(self, x: Value) -> tuple[list[int], list[int], list[bool]]:
        window = [self.pick.randint(1, min(3, dim)) for dim in x.shape[1:]]
        return window, [self.pick.randint(1, 2) for _ in window], [self.pick.random() < 0.5 for _ in window]

    def _convolution(self) -> None:
        if (x := self._image()) is None:
            return
        window, strides, padding = self._windows(x)
        maps = self.pick.randint(1, 3)
        shape = (maps, *map(convolved, x.shape[1:], window, strides, padding))
        self._node(
            "convolution",
            [x],
            shape,
            kernel=[maps, x.shape[0], *window],
            strides=strides,
            padding=padding,
            dilation=[1, 1],
        )

    def _transposed(self) -> None:
        if (x := self._image()) is None:
            return
        window, strides, _ = self._windows(x)
        maps = self.pick.randint(1, 2)
        shape = (
            maps,
            *((dim - 1) * stride + size for dim, size, stride in zip(x.shape[1:], window, strides, strict=True)),
        )
        if Value(0, shape, sequence=False).size <= SMALL:
            kernel = [x.shape[0], maps, *window]
            self._node("transposed", [x], shape, kernel=kernel, strides=strides, padding=[False, False])

    def _pooling(self) -> None:
        if (x := self._image()) is not None:
            window, strides, padding = self._windows(x)
            shape = (x.shape[0], *map(convolved, x.shape[1:], window, strides, padding))
            op = self.pick.choice(("max", "average"))
            self._node("pooling", [x], shape, op=op, window=window, strides=strides, padding=padding, ceil=False)

    def _layer_norm(self) -> None:
        if (x := self._any(lambda one: one.size > 1)) is not None:
            self._node("layer_norm", [x], x.shape)

    def _batch_norm(self) -> None:
        if (x := self._any(lambda one: len(one.shape) in (1, 3))) is not None:
            spatial = len(x.shape) == 3 and self.pick.random() < 0.7
            time, epsilon = self.pick.choice((0, 10, 5000)), self.pick.choice((1e-5, 1e-2))
            dims = x.shape[:1] if spatial else x.shape
            self._node("batch_norm", [x], x.shape, shape=dims, spatial=spatial, time=time, epsilon=epsilon)

    def _recurrence(self) -> None:
        if (x := self._any(lambda one: one.sequence and len(one.shape) == 1)) is not None:
            width, steps = self.pick.randint(1, 4), self.pick.choice((1, 1, 1, -1, 2))
            initial, gated = self.pick.choice((0, 0.1)), self.pick.random() < 0.4
            self._node(
                "recurrence", [x], (width,), width=width, dim=x.shape[0], steps=steps, initial=initial, gated=gated
            )

    def _loss(self) -> None:
        """End with a criterion of the last value that can be an output, and a target of the same shape."""
        last = self.values[-1]
        number = len(self.inputs)
        if len(last.shape) != 1:
            last = self._node("reshape", [last], (last.size,), shape=[last.size])
        self.inputs.append(
            {"name": f"i{number}", "shape": list(last.shape), "sequence": last.sequence, "sparse": False}
        )
        target = self._add({"kind": "input", "number": number, "inputs": []}, last.shape, last.sequence)
        op = self.pick.choice(LOSSES)
        made = {"binary_cross_entropy": last.shape, "softmax_cross_entropy": (1,)}.get(op, ())
        self._node("loss", [last, target], made, op=op)

    def _learner(self) -> Node:
        pick = self.pick
        if any(one["sparse"] for one in self.inputs):
            # For sparse gradients the original has few rules, one (Nesterov's) without the rate, and means of gradients
            # before the rate: docs/training.md.
            plain = {"l1": 0.0, "l2": 0.0, "clip": 0.0, "truncate": False, "per": 0, "momentum": 0.0}
            kind, rate = pick.choice(("sgd", "adagrad")), pick.choice((0.01, 0.05))
            return {"kind": kind, "rate": rate, "unit": pick.random() < 0.5, **plain}
        return {
            "kind": pick.choice(LEARNERS),
            "rate": pick.choice((0.001, 0.01, 0.05)),
            "per": pick.choice((0, 0, 1, 8)),  # 0: of the minibatch, whatever its size
            "momentum": pick.choice((0.0, 0.5, 0.9)),
            "unit": pick.random() < 0.5,
            "l1": pick.choice((0.0, 0.0, 0.01)),
            "l2": pick.choice((0.0, 0.0, 0.01)),
            "clip": pick.choice((0.0, 0.0, 0.05)),
            "truncate": pick.random() < 0.5,
        }


def broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two broadcast to; None if they do not."""
    rank = max(len(x), len(y))
    both = zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True)
    shape = []
    for one, other in both:
        if one != other and 1 not in (one, other):
            return None
        shape.append(max(one, other))
    return tuple(shape)


def convolved(dim: int, window: int, stride: int, padding: bool) -> int:
    """Return the length of an axis after a convolution."""
    return -(-dim // stride) if padding else (dim - window) // stride + 1


def case(seed: int) -> Node:
    """Return the description of a network with its data and learner."""
    return Drawn(seed).case()
