"""Source text of element-wise kernels in CUDA C: expression trees over operands that may be broadcast, and their sums.

The elements of a step lie in a few axes, most often one or two: adjacent axes that all operands treat alike are one.
All but the first are known when the text is written, so that the compiler divides by constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from cntk_core.api.engines import Dialect, Expr, TreeWriter, equal_names, rename_symbols

Tree = Expr | float
Flags = tuple[bool, ...]


def _number(value: Any) -> str:
    number = float(value)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    return repr(number)


SINGLE = Dialect(
    number=lambda value: f"F({_number(value)})",
    condition="({0} ? F(1) : F(0))",
    call="m_{operation}({arguments})",
    forms={"where": "({0} != F(0) ? {1} : {2})"},
)
"""Expressions in the precision of the program, whose functions the prelude has."""

DOUBLE = Dialect(
    number=_number,
    condition="({0} ? 1.0 : 0.0)",
    forms={
        "where": "({0} != 0.0 ? {1} : {2})", "power": "pow({0}, {1})", "abs": "fabs({0})",
        "minimum": "fmin({0}, {1})", "maximum": "fmax({0}, {1})", "sigmoid": "(1.0 / (1.0 + exp(-{0})))",
        "sign": "({0} > 0.0 ? 1.0 : {0} < 0.0 ? -1.0 : {0})", "logaddexp": "log(exp({0}) + exp({1}))",
        "arcsin": "asin({0})", "arccos": "acos({0})", "arctan": "atan({0})", "arcsinh": "asinh({0})",
        "arccosh": "acosh({0})", "arctanh": "atanh({0})",
    },
)  # fmt: skip
"""Expressions over numbers alone, in double precision."""

TOTAL = "total"
"""Name of a sum in the expression of what is made of it."""


FOLDS = {
    "sum": ("F(0)", "{0} + {1}"),
    "product": ("F(1)", "{0} * {1}"),
    "largest": ("-INFINITY", "m_maximum({0}, {1})"),
    "smallest": ("INFINITY", "m_minimum({0}, {1})"),
}
"""How values become one: what stands for none of them, and the text that joins two."""


@attrs.frozen
class Result:
    """What a kernel writes.

    Attributes:
        tree: its expression.
        accumulate: add to what is there.
        finish: what is made of the sum, over :data:`TOTAL`; None if it is the sum itself.
        fold: what takes the place of a sum: a key of :data:`FOLDS`.
    """

    tree: Tree
    accumulate: bool = False
    finish: Tree | None = None
    fold: str = "sum"


@attrs.frozen
class KernelSpec:
    """A kernel. Two equal specs are the same kernel, whatever the network.

    Attributes:
        sizes: elements of each axis; the first may be 0, then only the launch knows.
        operands: name of each, and along which axes it varies.
        results: what is written.
        kept: along which axes the results vary; they are sums over the others.
        numbers: names of the numbers (double precision) that lie in an array behind the operands.
        packed: a thread takes 16 bytes of each operand at once.
        wide: indices need 64 bits.
        block: threads along results, threads along sums; both powers of two.
    """

    sizes: tuple[int, ...]
    operands: tuple[tuple[str, Flags], ...]
    results: tuple[Result, ...]
    kept: Flags
    numbers: tuple[str, ...] = ()
    packed: bool = False
    wide: bool = False
    block: tuple[int, int] = (256, 1)

    @property
    def reduces(self) -> bool:
        """Whether results are sums."""
        return not all(self.kept)

    @cached_property
    def text(self) -> str:
        """The function, without the prelude; its name is ``kernel``."""
        writer = _Writer(self)
        return "\n".join([*(writer.reduction() if self.reduces else writer.map()), ""])


def prelude() -> str:
    """What stands before every kernel."""
    return (Path(__file__).parent / "kernels" / "prelude.cuh").read_text(encoding="utf-8")


def strides_of(sizes: Sequence[int], flags: Flags) -> list[int]:
    """Elements from one index to the next along each axis, 0 where an operand does not vary. It lies in one piece."""
    strides: list[int] = []
    step = 1
    for size, varies in zip(reversed(sizes), reversed(flags), strict=True):
        strides.append(step if varies else 0)
        step *= size if varies else 1
    return strides[::-1]


class _Writer:
    """Writes one kernel."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.tree = TreeWriter(SINGLE, "const F {name} = {text};", self._operand)
        self.index = "unsigned long long" if spec.wide else "unsigned"
        self.lane = ".x[v]" if spec.packed else ""

    # -- one result for each element ----------------------------------------------------------------------

    def map(self) -> Iterator[str]:
        """Lines of a kernel without sums."""
        spec, index = self.spec, self.index
        yield f'extern "C" __global__ void __launch_bounds__({spec.block[0]}) kernel({self._arguments("count")})'
        yield "{"
        yield from self._numbers()
        yield f"    const {index} stride = ({index})gridDim.x * blockDim.x;"
        yield f"    {index} p = ({index})blockIdx.x * blockDim.x + threadIdx.x;"
        yield f"    for (; p < ({index})count; p += stride) {{"
        yield f"        const {index} i = {'p * LANES' if spec.packed else 'p'};"
        partial = [flags for _, flags in spec.operands if not all(flags)]
        yield from self._coordinates("i", range(len(spec.sizes)), partial, "        ")
        for name, flags in spec.operands:
            yield f"        {self._load(name, flags)}"
        for number, result in enumerate(spec.results):
            if result.accumulate:
                yield f"        {self._load(f'r{number}', spec.kept, 'o')}"
        if spec.packed:
            yield from (f"        Pack r{number}_q;" for number in range(len(spec.results)))
            yield "        #pragma unroll"
            yield "        for (int v = 0; v < LANES; ++v) {"
        values = []
        for result in spec.results:
            yield from (f"            {line}" for line in self.tree.define(result.tree))
            values.append(self.tree.atom(result.tree))
        for number, (result, value) in enumerate(zip(spec.results, values, strict=True)):
            total = f"r{number}_o{self.lane} + {value}" if result.accumulate else value
            place = f"r{number}_q.x[v]" if spec.packed else f"r{number}[i]"
            yield f"            {place} = {total};"
        if spec.packed:
            yield "        }"
            for number in range(len(spec.results)):
                yield f"        *reinterpret_cast<Pack*>(r{number} + i) = r{number}_q;"
        yield "    }"
        yield "}"

    def _load(self, name: str, flags: Flags, suffix: str = "q") -> str:
        offset = "i" if all(flags) else self._offset(flags)
        if self.spec.packed and flags and flags[-1]:
            return f"const Pack {name}_{suffix} = *reinterpret_cast<const Pack*>({name} + {offset});"
        return f"const F {name}_{suffix} = {name}[{offset}];"

    def _arguments(self, *counts: str) -> str:
        spec = self.spec
        parts = [f"const F* {name}" for name, _ in spec.operands]
        if spec.numbers:
            parts.append("const double* numbers")
        parts += [f"F* r{number}" for number in range(len(spec.results))]
        return ", ".join([*parts, *(f"long long {count}" for count in counts)])

    def _coordinates(self, linear: str, axes: Sequence[int], readers: Sequence[Flags], indent: str) -> Iterator[str]:
        """The coordinates ``c0``, ``c1``, ... along some axes of a linear index over them, as far as somebody reads."""
        needed = [axis for axis in axes if any(flags[axis] for flags in readers)]
        rest = linear
        for axis in reversed(axes[1:]):
            if axis in needed:
                yield f"{indent}const {self.index} c{axis} = {rest} % {self.spec.sizes[axis]}u;"
            if any(other < axis for other in needed):
                yield f"{indent}const {self.index} rest{axis} = {rest} / {self.spec.sizes[axis]}u;"
                rest = f"rest{axis}"
        if len(axes) and axes[0] in needed:
            yield f"{indent}const {self.index} c{axes[0]} = {rest};"

    def _offset(self, flags: Flags) -> str:
        strides = strides_of(self.spec.sizes, flags)
        parts = [
            f"c{axis}" if stride == 1 else f"c{axis} * {stride}u"
            for axis, stride in enumerate(strides)
            if stride and flags[axis]
        ]
        return " + ".join(parts) or "0"

    # -- sums ---------------------------------------------------------------------------------------------

    def reduction(self) -> Iterator[str]:
        """Lines of a kernel of sums.

        A block has ``threadIdx.x`` along results and ``threadIdx.y`` along what is summed; ``gridDim.y`` blocks share
        the sums of a result, and write parts of them.
        """
        spec, index = self.spec, self.index
        along, across = spec.block
        counts = ("kept", "summed", "chunk")
        yield f'extern "C" __global__ void __launch_bounds__({along * across}) kernel({self._arguments(*counts)})'
        yield "{"
        yield from self._numbers()
        yield f"    const {index} k = ({index})blockIdx.x * {along}u + threadIdx.x;"
        yield f"    const bool inside = k < ({index})kept;"
        yield f"    const {index} begin = ({index})blockIdx.y * ({index})chunk;"
        yield f"    const {index} limit = begin + ({index})chunk < ({index})summed ? begin + ({index})chunk "
        yield f"        : ({index})summed;"
        for number, result in enumerate(spec.results):
            yield f"    F sum{number} = {FOLDS[result.fold][0]};"
        yield "    if (inside) {"
        kept_axes = [axis for axis, kept in enumerate(spec.kept) if kept]
        summed_axes = [axis for axis, kept in enumerate(spec.kept) if not kept]
        readers = [flags for _, flags in spec.operands]
        yield from self._coordinates("k", kept_axes, readers, "        ")
        yield f"        for ({index} s = begin + threadIdx.y; s < limit; s += {across}u) {{"
        yield from self._coordinates("s", summed_axes, readers, "            ")
        for name, flags in spec.operands:
            yield f"            const F {name}_q = {name}[{self._offset(flags)}];"
        values = []
        for result in spec.results:
            yield from (f"            {line}" for line in self.tree.define(result.tree))
            values.append(self.tree.atom(result.tree))
        for number, (result, value) in enumerate(zip(spec.results, values, strict=True)):
            yield f"            sum{number} = {FOLDS[result.fold][1].format(f'sum{number}', value)};"
        yield "        }"
        yield "    }"
        if across > 1:
            yield from self._across(along, across)
        first = " && threadIdx.y == 0" if across > 1 else ""
        yield f"    if (inside{first}) {{"
        yield f"        const {index} at = k * gridDim.y + blockIdx.y;"
        for number, result in enumerate(spec.results):
            found = f"part{number}[0][threadIdx.x]" if across > 1 else f"sum{number}"
            yield f"        const F {TOTAL}{number} = {found};"
            value = self._finished(result, f"{TOTAL}{number}")
            # Parts of a sum are never added to what is there, nor finished.
            yield f"        r{number}[at] = gridDim.y > 1 ? {TOTAL}{number} : {value};"
        yield "    }"
        yield "}"

    def _finished(self, result: Result, total: str) -> str:
        text = total if result.finish is None else SINGLE.nested(result.finish, lambda name: total)
        number = total.removeprefix(TOTAL)
        return f"r{number}[at] + {text}" if result.accumulate else text

    def _across(self, along: int, across: int) -> Iterator[str]:
        """Add the sums of threads along ``threadIdx.y``."""
        for number in range(len(self.spec.results)):
            yield f"    __shared__ F part{number}[{across}][{along}];"
            yield f"    part{number}[threadIdx.y][threadIdx.x] = sum{number};"
        yield "    __syncthreads();"
        yield f"    for (unsigned half = {across // 2}u; half; half >>= 1) {{"
        yield "        if (threadIdx.y < half) {"
        for number, result in enumerate(self.spec.results):
            mine = f"part{number}[threadIdx.y][threadIdx.x]"
            other = f"part{number}[threadIdx.y + half][threadIdx.x]"
            yield f"            {mine} = {FOLDS[result.fold][1].format(mine, other)};"
        yield "        }"
        yield "        __syncthreads();"
        yield "    }"

    # -- expressions --------------------------------------------------------------------------------------

    def _numbers(self) -> Iterator[str]:
        """What depends on numbers alone is computed once, in double precision."""
        trees = [result.tree for result in self.spec.results if isinstance(result.tree, Expr)]
        used = frozenset[str]().union(*(tree.symbols() for tree in trees))
        for place, name in enumerate(self.spec.numbers):
            if name in used:
                yield f"    const double {name}_d = numbers[{place}];"
        for result in self.spec.results:
            yield from self._hoist(result.tree)

    def _hoist(self, tree: Any) -> Iterator[str]:
        names = self.tree.names
        if not isinstance(tree, Expr) or tree in names or not self.spec.numbers:
            return
        if tree.symbols() and tree.symbols() <= set(self.spec.numbers):
            name = f"h{len(names)}"
            yield f"    const F {name} = F({DOUBLE.nested(tree, '{}_d'.format)});"
            names[tree] = name
            return
        for arg in tree.args:
            yield from self._hoist(arg)

    def _operand(self, name: str) -> str:
        flags = dict(self.spec.operands)[name]
        return f"{name}_q{self.lane if flags and flags[-1] else ''}"


def spec_of(
    sizes: Sequence[int],
    operands: Mapping[str, Flags],
    results: Sequence[Result],
    kept: Flags,
    *,
    numbers: Sequence[str] = (),
    packed: bool = False,
    wide: bool = False,
    block: tuple[int, int] = (256, 1),
) -> tuple[KernelSpec, tuple[str, ...]]:
    """Return the spec of some results, with operands renamed so that equal kernels are equal, and the old names.

    Operands are named ``a0``, ``a1``, ... in the order in which the trees meet them; those that none meets are left
    out.
    """
    names = equal_names((result.tree for result in results), operands)
    renamed = tuple(attrs.evolve(result, tree=rename_symbols(result.tree, names)) for result in results)
    placed = tuple((new, operands[old]) for old, new in names.items())
    spec = KernelSpec(tuple(sizes), placed, renamed, kept, tuple(numbers), packed, wide, block)
    return spec, tuple(names)
