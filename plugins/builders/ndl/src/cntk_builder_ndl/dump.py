"""The list of nodes that ``dumpFileName`` asks for (docs/original-rules.md#lists-of-nodes)."""

from __future__ import annotations

from pathlib import Path

from cntk_core.api import BuildError, Location, Network, Node, Parameter, ask_to_write, to_cntk


def write_dump(network: Network, path: Path, where: Location) -> None:
    """Write one line per node.

    Raises:
        BuildError: the file cannot be written.
    """
    ask_to_write(path, key="dumpFileName", where=where)
    text = "".join(f"\n{_describe(node)}\n" for node in network)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BuildError(f"cannot write the node list '{path}': {error.strerror or error}", where=where) from None


def _describe(node: Node) -> str:
    text = f"{node.name}={node.op.name}"
    if not isinstance(node, Parameter):
        return f"{text}({','.join(child.name for child in node.inputs)})" if node.inputs else text
    dims = ",".join(map(str, to_cntk(node.known_shape)))
    learned = "true" if node.learned else "false"
    return f"{text} [{dims}]  learningRateMultiplier={node.learning_rate_multiplier:.6f}  NeedsGradient={learned}"
