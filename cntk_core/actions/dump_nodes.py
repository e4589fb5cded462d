"""The action dumpNodes: the nodes of a model as text.

The original puts a blank in front of each piece of text that it writes, line ends included; tools read these files, so
ours have the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.actions.context import ActionContext
from cntk_core.config import Config
from cntk_core.errors import ConfigError, did_you_mean
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.shapes import show, to_cntk

_RULE = "#" * 68
_ALL = "__AllNodes__"


def check(context: ActionContext, section: Config) -> None:
    """Raise what is wrong with the section before anything runs."""
    section.require("modelPath")
    if not section.boolean("printValues", True) and not section.boolean("printMetadata", True):
        raise ConfigError(
            "printValues and printMetadata: Since both are set to false, there will be nothing to dump",
            where=section.location("printMetadata"),
            hint="Set one of them to true.",
        )
    _pattern(section)


def run(context: ActionContext, section: Config) -> None:
    """Write the nodes of ``modelPath`` to ``outputFile``."""
    model = section.string("modelPath")
    name = section.string("nodeName", _ALL)
    target = Path(section.string("outputFile", f"{model}.{name}.txt"))
    network = context.load_model(model, section.location("modelPath"))
    nodes = _chosen(context, section, network, name)
    values = section.boolean("printValues", True)
    metadata = section.boolean("printMetadata", True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="") as file:
        file.writelines(dump(nodes, values=values, metadata=metadata))


def dump(nodes: Iterable[Node], *, values: bool = True, metadata: bool = True) -> Iterator[str]:
    """Yield the text of nodes, piece by piece."""
    for node in nodes:
        yield from (f" {piece}" for piece in _pieces(node, values, metadata))


def _pieces(node: Node, values: bool, metadata: bool) -> Iterator[str]:
    if metadata:
        yield f"\n{node.name}={node.op.name}"
        yield from _metadata(node)
    if values and (isinstance(node, Parameter) or (node.op.role == "precompute" and node.value is not None)):
        if metadata:
            yield "\n"
        assert node.value is not None, f"{node.name} has no value"
        yield from _matrix(as_matrix(node.value))
        if metadata:
            yield _RULE


def _metadata(node: Node) -> Iterator[str]:
    shape = node.known_shape
    if isinstance(node, Input):
        yield "["
        yield " x ".join(str(dim) for dim in to_cntk(shape))
        yield "]"
        return
    if isinstance(node, Parameter):
        rows, columns = as_matrix(np.empty(shape, np.bool_)).shape
        yield f"[{rows},{columns}]  "
        rate = node.learning_rate_multiplier if node.needs_gradient else 0.0
        yield f"learningRateMultiplier={rate:f}  NeedsGradient={'true' if rate > 0 else 'false'}"
        return
    yield "("
    for index, child in enumerate(node.inputs):
        if index:
            yield ","
        yield child.name
    yield ")"
    if node.op.role == "precompute":
        yield f"{show(shape)}  "
        yield f"HasComputed={'true' if node.value is not None else 'false'}"


def as_matrix(value: NDArray[Any]) -> NDArray[Any]:
    """Return a value as the original shows it: CNTK's first dimension down, all others across."""
    return value.reshape(-1, value.shape[-1]).T if value.ndim else value.reshape(1, 1)


def _matrix(matrix: NDArray[Any]) -> Iterator[str]:
    digits = "%.9g" if matrix.dtype == np.float32 else "%.17g"
    row_format = " ".join([digits] * matrix.shape[1])
    for row in matrix:
        yield row_format % tuple(row.tolist())
        yield "\n"


def _pattern(section: Config) -> re.Pattern[str] | None:
    value = section.get("nodeNameRegex")
    if value is None or not value.string():
        return None
    try:
        return re.compile(value.string())
    except re.error as error:
        raise ConfigError(
            f"nodeNameRegex is not a regular expression: {error}",
            where=value.where,
            hint="It must match a whole node name, for example W.* for all names that begin with W.",
        ) from None


def _chosen(context: ActionContext, section: Config, network: Network, name: str) -> list[Node]:
    ordered = sorted(network, key=lambda node: node.name.lower())
    pattern = _pattern(section)
    if pattern is not None:
        found = [node for node in ordered if pattern.fullmatch(node.name)]
        context.log.plain(f"DumpNodeInfo: {len(found)} nodes matching RegEx({pattern.pattern}): ")
        for node in found:
            context.log.plain(f"\t{node.name}")
        return found
    if name in network:
        return [network[name]]
    if name != _ALL:
        guess = did_you_mean(name, [node.name for node in network])
        context.log.plain(
            f"Warning: node name '{name}' does not exist in the network{guess}. dumping all nodes instead."
        )
    return ordered
