"""Building networks from the lines of a section."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from cntk_builder_simple import SimpleNetworkBuilder

from cntk_core.api import BuildContext, CntkError, Network, core_ops, show
from cntk_core.api.builders import parse_text

Build = Callable[..., Network]


def build_section(text: str, **context: Any) -> Network:
    """Build a network from the lines of a section; the first is line 2 of r.cntk."""
    table = core_ops()
    block = parse_text(f"SimpleNetworkBuilder=[\n{text}\n]", file="r.cntk").own("SimpleNetworkBuilder")
    assert block is not None
    context = {"find_op": table.find, "op_names": lambda language: tuple(table.names(language)), **context}
    return SimpleNetworkBuilder().build(block, BuildContext(**context))


@pytest.fixture
def build() -> Build:
    return build_section


@pytest.fixture
def message() -> Callable[[str], str]:
    """A function that returns the text of the error that building a network from lines raises."""

    def error_of(text: str) -> str:
        with pytest.raises(CntkError) as error:
            build_section(text)
        return str(error.value)

    return error_of


@attrs.frozen
class Described:
    """A network with its shapes, as text.

    Attributes:
        lines: ``name = Operation(inputs) [shape]`` of every node, in the order of their making.
        parameters: ``name [shape]``.
        groups: names of the roots by role.
        said: lines that the builder wrote.
    """

    network: Network
    lines: list[str]
    parameters: list[str]
    groups: dict[str, list[str]]
    said: list[str]

    def named(self) -> list[str]:
        """The lines of nodes with a name of their own that are no parameters."""
        return [line for line in self.lines if not line.startswith("AutoName")]


@pytest.fixture
def describe() -> Callable[[str], Described]:
    """A function that builds a network from lines, works out its shapes and describes it."""

    def described(text: str) -> Described:
        said: list[str] = []
        network = build_section(text, trace=said.append)
        network.infer()
        lines = [
            f"{node.name} = {node.op.name}({', '.join(child.name for child in node.inputs)}) "
            f"{show(node.known_shape, framed=bool(node.framed))}"
            for node in network
            if node.op.role != "parameter"
        ]
        parameters = [f"{node.name} {show(node.known_shape)}" for node in network.parameters]
        groups = {role: [node.name for node in nodes] for role, nodes in network.roots.items()}
        return Described(network, lines, parameters, groups, said)

    return described
