"""Names and blocks of a network: functions of the original need no names, and several may have the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cntk_core.api import Network, NetworkError, Node, Parameter
from cntk_core.api.builders import Block

if TYPE_CHECKING:
    from cntk_model_cntk2.load import _Importer


def add_blocks(importer: _Importer) -> None:
    """Make blocks of the functions that are some: inner ones first, as a file has them.

    A block that gives what it is given is left out, and so is one that has some functions in common with another.
    """
    network = importer.network
    place = {node: index for index, node in enumerate(network)}
    for function in importer.composite.functions.values():
        if function.block is None:
            continue
        inside = importer.graph.inside(function)
        nodes = [node for uid in inside for node in importer.members.get(uid, ())]
        outputs = [importer.variable(uid) for uid in importer.graph.outputs(function) if _is_made(importer, uid)]
        members = dict.fromkeys(sorted(nodes, key=place.__getitem__))
        if not outputs or any(node not in members for node in outputs):
            continue
        arguments = {
            name: [(node, index) for node, index in importer.places.get(uid, ()) if node in members]
            for name, uid in _argument_names(importer, function.block.arguments)
        }
        name = function.name or function.uid
        given = {name: places for name, places in arguments.items() if places}
        with suppress(NetworkError):
            network.add_block(Block(name, function.block.kind, members, list(dict.fromkeys(outputs)), given))


def _is_made(importer: _Importer, uid: str) -> bool:
    owned = importer.graph.owner(importer.graph.steps(uid)[-1])
    return owned is not None and owned[0].uid in importer.made


def _argument_names(importer: _Importer, arguments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    taken: set[str] = set()
    for uid in arguments:
        variable = importer.composite.variables.get(uid)
        name = variable.name if variable is not None and variable.name not in ("", *taken) else uid
        taken.add(name)
        yield name, uid


# -- names ------------------------------------------------------------------------------------------------


def choose_names(importer: _Importer, outputs: Mapping[Node, Sequence[str]]) -> dict[Node, tuple[str, str]]:
    """Give nodes the names that the original's functions and variables have; return name and uid of outputs there.

    A node that is the output of blocks is called as the outermost one that has a name. A name that several have is
    put behind that of the block in which it is used; where there is none, the uid stands. Outputs and inputs of the
    network come first.
    """
    wanted = _wanted(importer)
    labels: dict[Node, tuple[str, str]] = {}
    for node, steps in outputs.items():
        owned = importer.graph.owner(steps[0])
        variable = importer.composite.variables.get(steps[0])
        name = owned[0].name if owned is not None else variable.name if variable is not None else ""
        labels[node] = name, steps[0]
        passed = name and owned is None  # an input that is an output, too, keeps its name
        wanted[node] = f"{name}.output" if passed else name or wanted.get(node, "")
    first = [*outputs, *importer.network.inputs]
    counted = Counter(wanted[node].lower() for node in importer.network if wanted.get(node))
    blocks = _innermost(importer.network)
    taken: set[str] = set()
    names: dict[Node, str] = {}
    for node in dict.fromkeys([*first, *importer.network]):
        names[node] = name = _free(node, wanted.get(node, ""), blocks, taken, counted, plain=node in first)
        taken.add(name.lower())
    importer.network.rename_all(names)
    return labels


def _wanted(importer: _Importer) -> dict[Node, str]:
    """The name of each node that has one: that of its function, or of a block around it whose result it is."""
    found: dict[Node, str] = {}
    for uid, leaf in importer.leaves.items():
        found[leaf] = importer.composite.variables[uid].name
    for uid, outputs in importer.made.items():
        function = importer.composite.functions[uid]
        if outputs and function.name:
            found[outputs[0]] = function.name
    for function in importer.composite.functions.values():  # blocks inside others stand before them
        if function.block is None or not function.name:
            continue
        results = importer.graph.outputs(function)
        if len(results) == 1 and _is_made(importer, results[0]):
            found[importer.variable(results[0])] = function.name
    return found


def _innermost(network: Network) -> dict[Node, str]:
    """For each node the name of the smallest block that it is in, or that reads it first if it is a parameter."""
    found: dict[Node, str] = {}
    for block in sorted(network.blocks, key=lambda block: len(block.nodes)):
        label = block.name if not block.name.startswith("Block") else f"{block.kind}{block.name.removeprefix('Block')}"
        for node in block.nodes:
            found.setdefault(node, label)
            for child in node.inputs:
                if isinstance(child, Parameter):
                    found.setdefault(child, label)
    return found


def _free(
    node: Node, name: str, blocks: Mapping[Node, str], taken: set[str], counted: Counter[str], *, plain: bool
) -> str:
    uid = node.name
    alone = bool(name) and (plain or counted[name.lower()] == 1)
    behind = f"{blocks[node]}.{name}" if name and node in blocks else ""
    for candidate in ((name if alone else ""), behind, uid, f"{name}.{uid}"):
        if candidate and candidate.lower() not in taken:
            return candidate
    while name.lower() in taken or not name:
        name += "'"
    return name
