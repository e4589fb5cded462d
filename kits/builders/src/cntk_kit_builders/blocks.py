"""Blocks of a network: made, called on other arguments, replaced, copied, found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cntk_core.errors import CntkError, NetworkError, did_you_mean, raise_problems
from cntk_core.network.blocks import Block, Place
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter, Placeholder
from cntk_core.ops.families.unary import PASS
from cntk_core.ops.language.shapes import show
from cntk_kit_builders.carry import carry_blocks
from cntk_kit_builders.clone import add_all, check_use, clone_nodes, depending_on, free_name
from cntk_kit_builders.edit import holds, remove_nodes, replace_node, sub_tree


def find_block(network: Network, name: str) -> Block:
    """Return the one block of a name.

    Raises:
        NetworkError: there is none, or there are several.
    """
    found = [block for block in network.blocks if block.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise NetworkError(f"the network has {len(found)} blocks '{name}'", hint="Choose one from network.blocks.")
    raise NetworkError(
        f"the network has no block '{name}'{did_you_mean(name, [block.name for block in network.blocks])}"
    )


def describe_block(block: Block, name_of: Callable[[Node], str] = lambda node: node.name) -> str:
    """``name = Kind (x, y) : [5 x *]``, as :meth:`~cntk_core.network.node.Node.describe` says it of a node."""
    shapes = [show(node.shape, framed=bool(node.framed)) for node in block.outputs if node.shape is not None]
    operands = ", ".join(map(name_of, block.operands.values()))
    return f"{block.name} = {block.kind} ({operands}){' : ' if shapes else ''}{', '.join(shapes)}"


def reads_of(block: Block) -> list[Node]:
    """Return what a block reads from outside that is no argument: parameters, and values from around it."""
    given = {place for argument in block.arguments for place in block.places(argument)}
    places = ((node, index, child) for node in block.nodes for index, child in enumerate(node.inputs))
    found = [child for node, index, child in places if child not in block.nodes and (node, index) not in given]
    return list(dict.fromkeys(found))


def _own(block: Block) -> set[Node]:
    """The parameters that belong to a block: those that it reads, also through what is computed from them alone."""
    own: set[Node] = set()
    for node in reads_of(block):
        tree = sub_tree([node])
        if not any(isinstance(part, Input | Placeholder) or part in block.nodes for part in tree):
            own.update(tree)
    return own


# -- making -----------------------------------------------------------------------------------------------


def as_block(
    network: Network,
    outputs: Sequence[Node],
    arguments: Mapping[Placeholder, Node],
    kind: str,
    name: str = "",
    names: Sequence[str] = (),
) -> Block:
    """Make what lies between placeholders and outputs a block, and apply it to nodes.

    The nodes that depend on the placeholders belong to the block, and so does what is computed from parameters for
    these nodes alone. An output that is an argument, or comes from elsewhere, gets a node ``Pass`` of its own.

    Args:
        network: what the nodes are in.
        outputs: the results.
        arguments: the placeholders in the order of the arguments, and what takes the place of each.
        kind: what it is: ``Dense``.
        name: by default its kind.
        names: of the arguments; by default those of the placeholders.

    Raises:
        NetworkError, Problems: no output is given, or none depends on an argument; a node is not in the network; two
            arguments have one name.
    """
    name, names = name or kind, list(names) or [placeholder.name for placeholder in arguments]
    _check_composite(network, outputs, arguments, name, names)
    members = _members(network, outputs, arguments)
    places: dict[str, list[Place]] = {}
    for argument, placeholder in zip(names, arguments, strict=True):
        places[argument] = [
            (node, index) for node in members for index, child in enumerate(node.inputs) if child is placeholder
        ]
    network.replace_placeholders(arguments)
    passed: dict[Node, Node] = {}
    for output in outputs:
        if output not in members and output not in passed:
            passed[output] = _pass(network, f"{name}.output", output)
            members[passed[output]] = None
            for argument, placeholder in zip(names, arguments, strict=True):
                places[argument] += [(passed[output], 0)] if output is placeholder else []
    return network.add_block(Block(name, kind, members, [passed.get(node, node) for node in outputs], places))


def _pass(network: Network, name: str, source: Node) -> Node:
    """Add a node that gives what another one gives, or what has taken its place."""
    if isinstance(source, Placeholder) and source.replacement is not None:
        source = source.replacement
    return network.add(Node(free_name(network, name), PASS, [source], PASS.attributes(), where=source.where))


def _check_composite(
    network: Network, outputs: Sequence[Node], arguments: Mapping[Placeholder, Node], name: str, names: Sequence[str]
) -> None:
    if not outputs:
        raise NetworkError(f"the block '{name}' has no output")
    if len(set(names)) != len(arguments) or len(names) != len(arguments):
        raise NetworkError(f"the block '{name}' needs a name for each of its {len(arguments)} arguments, not {names}")
    strange = [node for node in (*outputs, *arguments, *arguments.values()) if not holds(network, node)]
    if strange:
        raise NetworkError(f"'{strange[0].name}' is no node of this network", where=strange[0].where)
    needed = set(sub_tree(outputs))
    problems: list[CntkError] = [
        NetworkError(f"the block '{name}' does not read its argument '{placeholder.name}'", where=placeholder.where)
        for placeholder in arguments
        if placeholder not in needed
    ]
    raise_problems(problems)


def _members(network: Network, outputs: Sequence[Node], arguments: Mapping[Placeholder, Node]) -> dict[Node, None]:
    """What belongs to a block, in the network's order. Blocks that it has a part of are in it as wholes."""
    everything = sub_tree(outputs)
    candidates = [node for node in sub_tree(outputs, stop=arguments) if not _is_leaf(node)]
    members = depending_on(arguments, candidates) - set(arguments)
    varying = depending_on([node for node in everything if isinstance(node, Input | Placeholder)], everything)
    users: dict[Node, set[Node]] = {}
    for node in network:
        for child in node.inputs:
            users.setdefault(child, set()).add(node)
    size = -1
    while size != len(members):
        size = len(members)
        members.update(
            node
            for node in candidates
            if node not in varying and (node in outputs or users.get(node, members) <= members)
        )
        for block in network.blocks:
            if not members.isdisjoint(block.nodes) and not members <= block.nodes.keys():
                members.update(block.nodes)
    return {node: None for node in network if node in members}


def _is_leaf(node: Node) -> bool:
    return isinstance(node, Input | Parameter | Placeholder)


# -- using ------------------------------------------------------------------------------------------------


def call_block(
    network: Network,
    block: Block,
    operands: Sequence[Node] | Mapping[str, Node],
    *,
    parameters: str = "shared",
    name: str = "",
) -> Block:
    """Apply the function of a block once more, to other nodes; return the new block.

    Args:
        network: what the block is in.
        block: the function.
        operands: what it is applied to: in the order of the arguments, or by their names.
        parameters: one of :data:`~cntk_kit_builders.clone.PARAMETER_USES`: the new block has the same parameters
            (``shared``), or copies of them that learn (``learnable``) or not (``constant``).
        name: of the new block and, in place of the old one's, in the names of its nodes. By default that of the block.

    Raises:
        NetworkError: it is in another network, it has other arguments, or there is no such use of parameters.
    """
    _check_member(network, block)
    given = _operands(network, block, operands)
    check_use(parameters)
    wanted = {*block.nodes, *(_own(block) if parameters != "shared" else ())}
    stem = name or block.name

    def rename(old: str) -> str:
        inside = old == block.name or old.startswith(f"{block.name}.")
        return stem + old.removeprefix(block.name) if inside else f"{stem}.{old}"

    ordered = [node for node in network if node in wanted]
    copies = clone_nodes(ordered, {}, rename, frozen=parameters == "constant")
    add_all(network, copies.values())
    inside = [other for other in network.blocks if other.nodes.keys() <= block.nodes.keys()]
    made = carry_blocks(inside, copies, network, rename)
    changed = any(new.shape != old.shape for old, new in zip(block.operands.values(), given.values(), strict=True))
    for argument, operand in given.items():
        for node, index in block.places(argument):
            copies[node].inputs[index] = operand
    if changed:
        for node in block.nodes:  # what a loop is guessed from must not be what it was elsewhere
            copies[node].shape = node.shape if _is_leaf(node) else None
    return made[block]


def _check_member(network: Network, block: Block) -> None:
    if block not in network.blocks:
        raise NetworkError(
            f"the block '{block.name}' is not in this network", hint="Copy its nodes into it, with clone(...)."
        )


def _operands(network: Network, block: Block, operands: Sequence[Node] | Mapping[str, Node]) -> dict[str, Node]:
    names = list(block.operands)
    given = operands if isinstance(operands, Mapping) else dict(zip(names, operands, strict=False))
    if set(given) != set(names) or len(operands) != len(names):
        what = ", ".join(given) if isinstance(operands, Mapping) else str(len(operands))
        raise NetworkError(f"the block '{block.name}' has the arguments ({', '.join(names)}), not {what or 'none'}")
    for node in given.values():
        if not holds(network, node):
            raise NetworkError(f"'{node.name}' is no node of this network", where=node.where)
    return {name: given[name] for name in names}


def replace_block(network: Network, block: Block, outputs: Sequence[Node]) -> None:
    """Put nodes in the place of a block's outputs, and remove what nobody reads then.

    Nodes that are made of the block's outputs go on reading them; the block stays then.

    Raises:
        NetworkError: it is in another network, or there are more or fewer of them than outputs.
    """
    _check_member(network, block)
    if len(outputs) != len(block.outputs):
        raise NetworkError(f"the block '{block.name}' has {len(block.outputs)} outputs, not {len(outputs)}")
    for old, new in zip(list(block.outputs), outputs, strict=True):
        tree = sub_tree([new])
        replace_node(network, old, new, keep=set(tree) if old in tree else ())
    nodes, reads = list(block.nodes), reads_of(block)
    inside = set(nodes)
    used = {child for node in network if node not in inside for child in node.inputs}
    used.update(node for group in network.roots.values() for node in group)
    if inside.isdisjoint(used):
        remove_nodes(network, nodes)
        remove_nodes(network, [node for node in reads if isinstance(node, Parameter) and node not in used])
