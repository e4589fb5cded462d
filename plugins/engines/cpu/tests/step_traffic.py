"""What a step of training costs, counted from what it is bound to: calls, rows, and numbers that go to and from memory.

Two ways to the same results differ in nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from cntk_engine_cpu import binding, gemm, kernels, normalization, primitives
from cntk_engine_cpu.folds import FoldedUpdate
from cntk_engine_cpu.kernels import BoundNumbers
from cntk_engine_cpu.parts import Parts
from cpu_networks import SCALARS, compile_on, engine, momentum_rule

from cntk_core.api import Minibatch, Plan
from cntk_core.api.engines import Native

PRIMITIVES = (
    "convolution_forward",
    "convolution_backward_data",
    "convolution_backward_weights",
    "pooling",
    "pooling_backward",
    "reorder",
)


@attrs.define
class Traffic:
    """Of all that one part of a step does.

    Attributes:
        kernels: calls of compiled kernels.
        rows: that these go over.
        sums: results that are added to what is there.
        parts: into which they are cut for threads, where they are.
        products: of matrices.
        primitives: of convolution, pooling and reordering.
        others: calls of anything else.
        moved: numbers in the arrays of all that is called.
    """

    kernels: int = 0
    rows: int = 0
    sums: int = 0
    parts: int = 0
    products: int = 0
    primitives: int = 0
    others: int = 0
    moved: int = 0

    def row(self) -> tuple[int, ...]:
        """All numbers, in this order."""
        return attrs.astuple(self)


class _Watch:
    """Notes what is bound while ``monkeypatch`` lasts."""

    def __init__(self, monkeypatch: Any) -> None:
        self.parts: list[Traffic] = []
        self._inner = Traffic()
        self._patch = monkeypatch
        self._made: dict[int, tuple[str, Sequence[Any]]] = {}
        self._specs: dict[int, kernels.KernelSpec] = {}
        self._kept: list[Any] = []
        self._wrap(gemm.Gemm, "bind", "products")
        for name in PRIMITIVES:
            self._wrap(primitives.Primitives, name, "primitives")
        self._wrap(kernels.KernelLibrary, "get", "kernels")
        self._patch.setattr(binding, "_one_after_the_other", self._bound(binding._one_after_the_other))
        self._patch.setattr(normalization, "straight_line", self._inside(normalization.straight_line))

    def _wrap(self, owner: Any, name: str, kind: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def made(this: Any, *given: Any, **more: Any) -> Any:
            found = original(this, *given, **more)
            run = found[0] if isinstance(found, tuple) else found
            self._kept.append(run)
            if kind == "kernels":
                self._specs[id(run)] = given[0]
            else:
                self._made[id(run)] = kind, [one for one in (*given, *more.values()) if isinstance(one, np.ndarray)]
            return found

        self._patch.setattr(owner, name, made)

    def _bound(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def one_after_the_other(site: Any, parts: Any, told: Any) -> Any:
            found, self._inner = self._inner, Traffic()
            for _, calls in parts:
                for call in calls:
                    self._count(found, call.function, call.arguments)
            self.parts.append(found)
            return original(site, parts, told)

        return one_after_the_other

    def _inside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Count what a call does that is bound to others."""

        def straight_line(calls: Any, ports: Any) -> Any:
            for call in calls:
                self._count(self._inner, call.function, call.arguments)
            return original(calls, ports)

        return straight_line

    def _count(self, found: Traffic, function: Any, arguments: Sequence[Any]) -> None:
        if id(function) in self._made:
            kind, arrays = self._made[id(function)]
            setattr(found, kind, getattr(found, kind) + 1)
            found.moved += _numbers(arrays)
            found.sums += arguments[1:] == (1.0,)
        elif isinstance(function, FoldedUpdate):
            for product, rest in function._panels:
                self._count(found, product, ())
                self._count(found, *_call_of(rest))
        elif isinstance(function, Parts):
            found.parts += len(function.blocks)
            self._kernel(found, function._function, [*function._kept.values()], int(function._counts.sum()))
        elif isinstance(function, Native):
            rows = arguments[0] if isinstance(arguments[0], int) else 0
            self._kernel(found, function, arguments, rows)
        else:
            found.others += 1
            found.moved += _numbers(_arrays([*arguments, *_cells(function)]))

    def _kernel(self, found: Traffic, function: Native, arguments: Sequence[Any], rows: int) -> None:
        spec = self._specs.get(id(function))
        found.kernels += 1
        found.rows += rows
        found.moved += _numbers(_arrays(arguments))
        if spec is not None:
            found.sums += sum(result.accumulate for result in spec.results)


def _call_of(rest: Any) -> tuple[Any, Sequence[Any]]:
    return (rest._kernel, rest._arguments) if isinstance(rest, BoundNumbers) else (rest._parts, ())


def _cells(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        yield cell.cell_contents


def _arrays(given: Sequence[Any]) -> list[Any]:
    return [one for one in given if isinstance(one, np.ndarray)]


def _numbers(arrays: Sequence[Any]) -> int:
    return sum(array.size for array in arrays)


def traffic_of(
    monkeypatch: Any, plan: Plan, batch: Minibatch, *, threads: int = 1, dtype: Any = np.float32, backend: str = ""
) -> list[tuple[int, ...]]:
    """Return what the forward part, the backward part and the backward part with updates cost."""
    watch = _Watch(monkeypatch)
    _, program = compile_on(engine(backend or "compiled+onednn", threads), plan, momentum_rule(), dtype)
    program.compute_gradients(batch)
    program.train_step(batch, [SCALARS] * len(plan.trained))
    return [part.row() for part in watch.parts]
