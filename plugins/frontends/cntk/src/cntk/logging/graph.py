"""Walks through graphs of functions and variables, searches in them, and draws them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SUFFIXES = (".svg", ".pdf", ".png", ".dot")
_COLOURS = {"Input": "yellow", "Placeholder": "grey", "Parameter": "green", "Constant": "lightblue"}


def depth_first_search(root: Any, visitor: Callable[[Any], bool], depth: int = 0) -> list[Any]:
    """Return the functions and variables under a Function that a visitor wants, each once.

    Args:
        root: where the walk begins.
        visitor: says whether a node is wanted; called once for each.
        depth: how many blocks inside each other are entered; -1 is all of them. Arguments of a block that is entered
            come after everything else that is at hand.
    """
    stack = [(root.root_function, sys.maxsize if depth == -1 else depth)]
    found: list[Any] = []
    visited: set[str] = set()
    while stack:
        node, left = stack.pop(0)
        if node.uid in visited:
            continue
        visited.add(node.uid)
        is_function = hasattr(node, "root_function")
        if is_function and node.is_block and left > 0:
            inside = node.block_arguments_mapping
            stack.extend((actual, left - 1) for _, actual in inside)
            visited.update(argument.uid for argument, _ in inside)
            stack.append((node.block_root.root_function, left - 1))
        elif is_function:
            stack = [(each, left) for each in node.root_function.inputs] + stack
        elif node.is_output:
            stack.insert(0, (node.owner, left))
            continue
        if visitor(node):
            found.append(node if is_function else _proper(node))
    return found


def _proper(variable: Any) -> Any:
    """Return a parameter or a constant as what it is."""
    if variable.is_parameter and hasattr(variable, "as_parameter"):
        return variable.as_parameter()
    if variable.is_constant and hasattr(variable, "as_constant"):
        return variable.as_constant()
    return variable


def find_all_with_name(node: Any, node_name: str, depth: int = 0) -> list[Any]:
    """Return everything of a name under a Function (:func:`depth_first_search`)."""
    return depth_first_search(node, lambda each: bool(each.name == node_name), depth)


def find_by_name(node: Any, node_name: str, depth: int = 0) -> Any:
    """Return what has a name under a Function; None if nothing has.

    Raises:
        ValueError: the name is no string; several things have it.
    """
    if not isinstance(node_name, str):
        raise ValueError(f"the name of a node is a string, not {type(node_name)}")
    return _only(find_all_with_name(node, node_name, depth), node_name)


def find_by_uid(node: Any, node_uid: str, depth: int = 0) -> Any:
    """Return what has a uid under a Function; None if nothing has.

    Raises:
        ValueError: the uid is no string.
    """
    if not isinstance(node_uid, str):
        raise ValueError(f"the uid of a node is a string, not {type(node_uid)}")
    return _only(depth_first_search(node, lambda each: bool(each.uid == node_uid), depth), node_uid)


def _only(found: list[Any], name: str) -> Any:
    if len(found) > 1:
        raise ValueError(f"{len(found)} nodes have the name '{name}'; find_all_with_name returns all of them")
    return found[0] if found else None


def get_node_outputs(node: Any, depth: int = 0) -> list[Any]:
    """Return the outputs of all functions under a Function (:func:`depth_first_search`)."""
    return [output for each in depth_first_search(node, _always, depth) for output in getattr(each, "outputs", ())]


def _always(node: Any) -> bool:
    return True


def plot(root: Any, filename: str | None = None) -> str:
    """Describe a graph as text, and draw it.

    Args:
        root: the Function.
        filename: file for the drawing: ``.dot`` is the graph in Graphviz's language; ``.svg``, ``.pdf``, ``.png`` need
            its program ``dot``. None: no drawing.

    Returns:
        A line ``Op(uids of inputs) -> uid`` for each output, the root last.

    Raises:
        ValueError: no such kind of file.
        ImportError: there is no program ``dot``.
    """
    suffix = "" if filename is None else Path(filename).suffix.lower()
    if filename is not None and suffix not in _SUFFIXES:
        raise ValueError(f"a graph is drawn into files {', '.join(_SUFFIXES)}, not '{suffix}'")
    functions = _functions(root.root_function)
    if filename is not None:
        _draw(_dot(root.root_function, functions), Path(filename), suffix)
    lines = [
        f"{each.op_name}({', '.join(argument.uid for argument in _shown(each))}) -> {output.uid};\n"
        for each in functions
        for output in each.outputs
    ]
    return "\n".join(reversed(lines))


def _functions(root: Any) -> list[Any]:
    """Return the functions under a root, blocks as one, each before what it reads."""
    stack, found, visited = [root], [], set()
    while stack:
        node = stack.pop(0)
        if node.uid in visited:
            continue
        visited.add(node.uid)
        if hasattr(node, "root_function"):
            found.append(node)
            stack = list(node.root_function.inputs) + stack
        elif node.is_output:
            stack.insert(0, node.owner)
    return found


def _shown(function: Any) -> list[Any]:
    """Return the inputs of a function that are shown: of a block, without constants."""
    return [each for each in function.inputs if not (function.is_block and each.is_constant)]


def _kind(variable: Any) -> str:
    for kind in ("Parameter", "Constant", "Input", "Placeholder"):
        if getattr(variable, f"is_{kind.lower()}"):
            return kind
    return "Output"


def _size(variable: Any) -> str:
    """Return dynamic axes and shape: ``[#,*](3,)``."""
    count = len(variable.dynamic_axes)
    axes = "[#" + ",*" * (count - 1) + "]" if count else ""
    return f"{axes}{variable.shape}"


def _dot(root: Any, functions: list[Any]) -> str:
    """Return a graph in Graphviz's language."""
    lines = [
        "digraph network_graph {",
        "rankdir=TB;",
        "node [shape=box, style=filled, fillcolor=lightgray, fontsize=12];",
        "edge [fontsize=10];",
    ]
    drawn: set[str] = set()
    for each in functions:
        title = each.op_name + (f"\n{each.name}()" if each.name else "")
        lines.append(f"{_quoted(each.uid)} [label={_quoted(title)}];")
        for argument in _shown(each):
            source = argument.owner.uid if argument.is_output else argument.uid
            if not argument.is_output and source not in drawn:
                drawn.add(source)
                lines.append(_leaf(argument))
            label = f"{argument.name or argument.uid}\n{_size(argument)}"
            lines.append(f"{_quoted(source)} -> {_quoted(each.uid)} [label={_quoted(label)}];")
    for output in root.outputs:
        label = f"{output.name}\n{_size(output)}"
        lines.append(f"{_quoted(output.uid)} [shape=egg, label={_quoted(label)}];")
        lines.append(f"{_quoted(root.uid)} -> {_quoted(output.uid)} [label={_quoted(_size(output))}];")
    return "\n".join([*lines, "}", ""])


def _leaf(variable: Any) -> str:
    kind = _kind(variable)
    title = f"{variable.name or kind}\n{_size(variable)}"
    shape = "egg" if kind in ("Input", "Placeholder") else "box"
    return f"{_quoted(variable.uid)} [shape={shape}, fillcolor={_COLOURS[kind]}, label={_quoted(title)}];"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _draw(dot: str, path: Path, suffix: str) -> None:
    if suffix == ".dot":
        path.write_text(dot, encoding="utf-8")
        return
    program = shutil.which("dot")
    if program is None:
        raise ImportError(f"a graph as {suffix} needs the program dot of Graphviz; a file .dot needs nothing")
    done = subprocess.run(
        [program, f"-T{suffix[1:]}", "-o", str(path)], input=dot.encode(), capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ValueError(f"dot cannot draw '{path}': {said}")
