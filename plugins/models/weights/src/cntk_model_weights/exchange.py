"""The values of a network's nodes by name: out into a file, and in from one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, Network, NetworkError, Node, UsageError
from cntk_core.api.builders import NamePattern, WeightsFile, npz_chunks, open_weights, write_file

Order = Literal["numpy", "cntk"]
"""How the axes of an array stand: as in memory, the reverse of CNTK's dimensions; or as CNTK prints them."""

ORDERS: tuple[Order, ...] = get_args(Order)

_MOST_TOLD = 20


def save_weights(network: Network, path: str | Path, *, order: Order = "numpy", nodes: Sequence[str] = ()) -> list[str]:
    """Write the values of parameters and precomputed nodes by the names of their nodes.

    Args:
        network: has the values.
        path: ends in ``.npz`` or ``.safetensors``; an old file is there until the new one is whole.
        order: ``numpy``: a matrix of CNTK's ``[out x in]`` is an array ``(in, out)``, as the Python of CNTK 2 shows it;
            ``cntk``: an array ``(out, in)``, as PyTorch's ``Linear`` has it.
        nodes: patterns of names with ``*``; by default all.

    Returns:
        The names that were written.

    Raises:
        UsageError: the name of the file says no known format.
        NetworkError: no node has such a name and values.
        OSError: the file cannot be written.
    """
    path = Path(path)
    writers = {".npz": npz_chunks, ".safetensors": _safetensors}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"'{path}' is no file of weights", hint="Its name must end in .npz or .safetensors.")
    valued = {node.name: node.value for node in _chosen(network, nodes) if node.value is not None}
    arrays = {name: np.ascontiguousarray(value.T if order == "cntk" else value) for name, value in valued.items()}
    write_file(path, writer(arrays))
    return list(arrays)


def _chosen(network: Network, patterns: Sequence[str]) -> Iterator[Node]:
    tried = [NamePattern(pattern) for pattern in patterns or ("*",)]
    valued = [node for node in network if node.value is not None]
    found = [node for node in valued if any(pattern.match(node.name) is not None for pattern in tried)]
    if not found:
        wanted = f"called {' or '.join(patterns)} " if patterns else ""
        raise NetworkError(f"no node {wanted}has values")
    yield from found


def _safetensors(arrays: Mapping[str, NDArray[Any]]) -> Iterable[bytes | memoryview]:
    from safetensors.numpy import save

    return [save(dict(arrays), {"format": "np"})]


@attrs.frozen
class Taken:
    """What became of a file's arrays.

    Attributes:
        nodes: names of the nodes that have new values.
        left: names of the file's arrays that no node took.
        kept: names of the nodes whose values are as before.
    """

    nodes: Sequence[str]
    left: Sequence[str]
    kept: Sequence[str]


def load_weights(
    network: Network,
    path: str | Path,
    *,
    order: Order = "numpy",
    names: Mapping[str, str] | None = None,
    partial: bool = False,
) -> Taken:
    """Give the nodes of a network the values of a file, all or none of them.

    Args:
        network: its parameters and precomputed nodes get the values, in its own precision.
        path: ends in ``.npz``, ``.safetensors`` or ``.safetensors.index.json``.
        order: of the file's axes, see :func:`save_weights`; axes of 1 do not count.
        names: node to array, for those that are called otherwise in the file. ``NAME^T`` is an array whose axes stand
            the other way round than ``order`` says.
        partial: nodes without an array keep their values, and arrays without a node are left out.

    Raises:
        DataError: the file cannot be read, or nodes and arrays do not fit: all that do not are named.
    """
    file = open_weights(Path(path))
    wanted = dict(names or {})
    valued = {node.name: node for node in network if node.op.role in ("parameter", "precompute") and not node.framed}
    problems = [f"there is no parameter '{name}'" for name in wanted if name not in valued]
    plan = _Plan(file, order)
    for name, node in valued.items():
        plan.take(node, wanted.get(name, name), asked=name in wanted, partial=partial)
    left = sorted(set(file.entries) - plan.used)
    if left and not partial:
        plan.problems.append(f"no node takes {_some(left)}")
    _refuse(file, [*problems, *plan.problems])
    for node, values in plan.values():
        node.value = values.astype(network.dtype)
    taken = [node.name for node, _, _ in plan.found]
    return Taken(taken, left, [name for name in valued if name not in taken])


@attrs.define(eq=False)
class _Plan:
    """Which node gets which array, and what does not fit."""

    file: WeightsFile
    order: Order
    found: list[tuple[Node, str, bool]] = attrs.field(factory=list)
    used: set[str] = attrs.field(factory=set)
    problems: list[str] = attrs.field(factory=list)

    def take(self, node: Node, said: str, *, asked: bool, partial: bool) -> None:
        """Note the array of a node, whose shape has to fit."""
        turned = said.endswith("^T") and said not in self.file.entries
        name = said.removesuffix("^T") if turned else said
        entry = self.file.entries.get(name)
        if entry is None:
            if asked or not partial:
                self.problems.append(f"there is no array '{name}' for '{node.name}'")
            return
        self.used.add(name)
        reverse = (self.order == "cntk") != turned
        shape, wanted = entry.shape[::-1] if reverse else entry.shape, node.known_shape
        if _real(shape) == _real(wanted):
            self.found.append((node, name, reverse))
            return
        other = _real(shape[::-1]) == _real(wanted)
        hint = " (the axes stand the other way round)" if other else ""
        needed = wanted[::-1] if reverse else wanted
        self.problems.append(f"'{name}' is {_sizes(entry.shape)}, '{node.name}' needs {_sizes(needed)}{hint}")

    def values(self) -> list[tuple[Node, NDArray[Any]]]:
        """Read the arrays: all, before the first is given to a node."""
        result = []
        for node, name, reverse in self.found:
            values = self.file.read(name)
            result.append((node, np.ascontiguousarray(values.T if reverse else values).reshape(node.known_shape)))
        return result


def _real(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(f"'{name}'" for name in names[:_MOST_TOLD]) + more


def _refuse(file: WeightsFile, problems: Sequence[str]) -> None:
    if not problems:
        return
    more = [f"and {len(problems) - _MOST_TOLD} more"] if len(problems) > _MOST_TOLD else []
    listed = "\n    ".join([*problems[:_MOST_TOLD], *more])
    raise DataError(
        f"the weights do not fit the network:\n    {listed}",
        where=Location(str(file.path)),
        hint="Give nodes the names of arrays (--name NODE=ARRAY), say --order, or take what fits with --partial.",
    )
