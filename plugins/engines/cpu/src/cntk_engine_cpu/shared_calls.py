"""Calls of kernels over rows, in parts where there is enough to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api.engines import Native
from cntk_engine_cpu.compiler import compile_file
from cntk_engine_cpu.parts import Cut, Parts, part_ends
from cntk_engine_cpu.site import Array, Call, Site
from cntk_engine_cpu.source import KernelSpec, is_matrix


@attrs.frozen(eq=False)
class Sum:
    """An argument that a kernel writes a sum over its rows to.

    Attributes:
        out: where the whole sum goes, flat.
        accumulate: it is added to what is there.
        times: how many sums of that size the kernel writes side by side.
    """

    out: Array
    accumulate: bool = False
    times: int = 1


def shared_calls(
    site: Site, function: Native, shape: tuple[int, ...], arguments: Sequence[Any], cuts: Sequence[Cut]
) -> list[Call]:
    """Return the calls of a compiled function over some rows; a :class:`Sum` among its arguments is cut by itself.

    Args:
        site: where.
        function: what it does for a row does not depend on other rows, but for its sums.
        shape: rows and columns of the matrix with the most elements.
        arguments, cuts: for all rows, and what a part of them gets of each.
    """
    rows, columns = shape
    summed = any(isinstance(argument, Sum) for argument in arguments)
    ends = part_ends(rows, columns, sums=summed)
    together = len(ends) == 2 or (site.gemm.team.threads < 2 and not summed)
    given, after = _with_room(site, 1 if together else len(ends) - 1, arguments)
    if together:
        alone = [
            each[0] if isinstance(of, Sum) and each is not of.out else each
            for each, of in zip(given, arguments, strict=True)
        ]
        return [Call(function, tuple(alone)), *after]
    cuts = ["each" if isinstance(argument, Sum) else cut for argument, cut in zip(arguments, cuts, strict=True)]
    return [Call(Parts(site.gemm.team, function, ends, given, cuts, site.ports)), *after]


def _with_room(site: Site, parts: int, arguments: Sequence[Any]) -> tuple[list[Any], list[Call]]:
    """Return arguments with room for the sums of each part, and the calls that add these up."""
    sums = {index: argument for index, argument in enumerate(arguments) if isinstance(argument, Sum)}
    given, after = list(arguments), []
    room = site.gemm.team.room(sum(parts * each.times * each.out.size for each in sums.values()), site.dtype)
    for index, each in sums.items():
        if parts == each.times == 1 and not each.accumulate:
            given[index] = each.out
            continue
        size = each.times * each.out.size
        mine, room = room[: parts * size].reshape(parts, size), room[parts * size :]
        given[index] = mine
        after.append(
            Call(_function("add_up", site.dtype.name), (mine.reshape(-1, each.out.size), each.out, each.accumulate))
        )
    return given, after


def kernel_calls(
    site: Site, spec: KernelSpec, rows: int, columns: int, arrays: Sequence[Any], times: int = 1
) -> list[Call]:
    """Return the calls of an element-wise kernel.

    Args:
        site: where.
        spec: the kernel; it has no numbers.
        rows, columns: of its matrices.
        arrays: its operands, then its outputs.
        times: how many rows are taken as one: a sum over rows is that of so many sums.
    """
    results = [spec.results[index] for index in spec.outputs]
    summed = [result.kind in ("row", "scalar") for result in results]
    split = times > 1 or (any(summed) and len(part_ends(rows, columns, sums=True)) > 2)
    count = len(spec.operands)
    arguments = list(arrays)
    if split:
        for place, (result, is_sum) in enumerate(zip(results, summed, strict=True), start=count):
            if is_sum:
                several = times if result.kind == "row" else 1
                arguments[place] = Sum(arrays[place], result.accumulate, several)
        spec = _alone(spec)
    kernel = site.kernels.get(spec, site.dtype)
    if not isinstance(kernel, Native):
        return [Call(kernel, (rows, columns, *arrays))]
    kinds = [kind for _, kind in spec.operands] + [result.kind for result in results]
    cuts: list[Cut] = ["rows" if is_matrix(kind) or kind == "col" else "whole" for kind in kinds]
    if any(summed) and not split:
        return [Call(kernel, (rows, columns, *arrays))]
    return shared_calls(site, kernel, (rows, columns), [rows, columns, *arguments], ["count", "whole", *cuts])


def _alone(spec: KernelSpec) -> KernelSpec:
    """The kernel with sums that are not added to anything."""
    results = [
        attrs.evolve(result, accumulate=False) if result.kind in ("row", "scalar") else result
        for result in spec.results
    ]
    return attrs.evolve(spec, results=tuple(results))


def repeat_call(site: Site, row: Array, target: Array) -> Call:
    """Return the call that writes a row as often as it fits into a longer one."""
    if site.kernels.compiled:
        return Call(_function("repeat", site.dtype.name), (row, target))
    return Call(np.copyto, (target.reshape(-1, row.size), row))


@cache
def _function(name: str, dtype: str) -> Native:
    flat, matrix = f"{dtype}[::1]", f"{dtype}[:, ::1]"
    signature = {"repeat": f"void({flat}, {flat})", "add_up": f"void({matrix}, {flat}, boolean)"}[name]
    return compile_file(Path(__file__).with_name("row_functions.py"), name, dtype, signature)
