"""What becomes of blocks and names of a file, and of the order of its parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
from drafts import Draft, lines

from cntk_core.api import ModelFormatError


def refused(draft: Draft, folder: Path, root: str = "") -> str:
    with pytest.raises(ModelFormatError) as caught:
        draft.load(folder, root)
    return str(caught.value).removeprefix(f"'{folder / 'x.model'}' is damaged: ").replace(str(folder / "x.model"), "x")


def names(draft: Draft, folder: Path, root: str = "") -> list[str]:
    return [node.name for node in draft.load(folder, root).network]


def test_the_same_name_several_times(tmp_path: Path) -> None:
    """Outputs and inputs have it first; others have their uid, also if it differs in case alone."""
    draft = Draft()
    x = draft.input("x", 2)
    a = draft.function("Tanh", "F1", x, name="a")
    b = draft.function("Exp", "F2", a, name="b")
    c = draft.function("Sin", "F3", b, name="A")
    draft.function("Cos", "F4", c, name="B")
    assert names(draft, tmp_path) == ["x", "F1", "F2", "F3", "B"]


def test_names_that_are_the_uids_of_others(tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 2)
    a = draft.function("Tanh", "F1", x)
    b = draft.function("Exp", "F2", a)
    draft.function(
        "Combine", "all", draft.function("Sin", "F3", b, name="F1"), draft.function("Cos", "F4", b, name="F2")
    )
    assert names(draft, tmp_path) == ["x", ".F1", ".F2", "F1", "F2"]


def test_names_of_blocks(tmp_path: Path) -> None:
    """The one result of a block has its name; a name inside that is there twice stands behind that of its block."""
    draft = Draft()
    x = draft.input("x", 2)
    for number in (1, 2):
        draft.placeholder(f"P{number}", 2, name="in")
        draft.parameter(f"W{number}", 2, name="W")
        inner = draft.function("Plus", f"I{number}", f"P{number}", f"W{number}", name="inner")
        draft.function("Tanh", f"O{number}", inner, name="inside")
        x = draft.block(f"Block{number}", f"O{number}", "Dense", "h" if number == 1 else "", **{f"P{number}": x})
    model = draft.load(tmp_path)
    assert sorted(node.name for node in model.network) == sorted(
        ["x", "h.W", "h.inner", "h", "Dense2.W", "Dense2.inner", "inside"]
    )
    assert [(block.name, block.kind, list(block.arguments)) for block in model.network.blocks] == [
        ("h", "Dense", ["in"]),
        ("Block2", "Dense", ["in"]),
    ]
    assert [block.arguments["in"] for block in model.network.blocks] == [
        [(model.network["h.inner"], 0)],
        [(model.network["Dense2.inner"], 0)],
    ]


def test_arguments_of_the_same_name_are_called_by_their_uids(tmp_path: Path) -> None:
    draft = Draft()
    x, y = draft.input("x", 2), draft.input("y", 2)
    for uid in ("P", "Q", "R"):
        draft.placeholder(uid, 2, name="" if uid == "R" else "in")
    inner = draft.function("Plus", "I", draft.function("Plus", "J", "P", "Q"), "R")
    draft.block("B", "I", P=x, Q=y, R=x)
    (block,) = draft.load(tmp_path).network.blocks
    assert inner == "I_Output_0"
    assert list(block.arguments) == ["in", "Q", "R"]


def test_a_block_that_gives_what_it_is_given_is_none(tmp_path: Path) -> None:
    """Those after it are blocks all the same."""
    draft = Draft()
    x = draft.input("x", 2)
    draft.placeholder("P", 2)
    draft.placeholder("Q", 2)
    draft.function("Combine", "C", "P")
    same = draft.block("Same", "C", P=x)
    draft.function("Tanh", "T", "Q")
    draft.block("Other", "T", Q=same)
    network = draft.load(tmp_path).network
    assert [block.name for block in network.blocks] == ["Other"]
    assert lines(network) == ["T = Tanh(x) [2]"]


def test_blocks_that_make_no_sense(tmp_path: Path) -> None:
    draft = Draft()
    draft.placeholder("P", 2)
    draft.block("B", "nobody", P=draft.input("x", 2))
    assert refused(draft, tmp_path) == "the block 'B' has no root"
    draft = Draft()
    draft.block("B", "B", P=draft.input("x", 2))
    assert refused(draft, tmp_path) == "the block 'B' has no root"
    draft = Draft()
    draft.placeholder("P", 2)
    draft.function("Tanh", "T", "P")
    draft.block("B", "T", P="P")
    assert refused(draft, tmp_path) == "the variable 'P' stands for itself"
    draft = Draft()
    draft.placeholder("P", 2)
    draft.function("Tanh", "T", "P")
    draft.function("Exp", "E", draft.block("B", "T", P=draft.input("x", 2)).replace("_0", "_1"))
    assert refused(draft, tmp_path) == "there is no output 'B_Output_1'"
    draft = Draft()
    draft.function("Tanh", "T", draft.input("x", 2))
    draft.block("B", "T", P="x")
    draft.functions[-1]["block_function_composite_arguments_map_keys"] = []
    assert refused(draft, tmp_path) == "the function 'B' has 0 arguments and 1 values for them"


def test_parameters_stand_in_the_order_of_the_original(tmp_path: Path) -> None:
    """Those of a function's own inputs come first, then those of what its inputs come from, each once."""
    draft = Draft()
    x = draft.input("x", 2)
    w = [draft.parameter(f"W{index}", 2) for index in range(5)]
    a = draft.function("Plus", "a", x, w[0])
    b = draft.function("Plus", "b", draft.function("Plus", "c", a, w[1]), w[2])
    d = draft.function("Plus", "d", a, w[3])
    draft.function("Plus", "z", draft.function("Plus", "e", b, w[4]), d)
    assert list(draft.load(tmp_path).parameters) == ["W4", "W2", "W1", "W0", "W3"]


def test_names_behind_which_all_others_are_taken(tmp_path: Path) -> None:
    draft = Draft()
    a = draft.function("Exp", "F1", draft.input("x", 2))
    outputs = [draft.function("Sin", f"G{index}", a, name=name) for index, name in enumerate(("F1", ".F1", "'"))]
    draft.function("Combine", "all", *outputs)
    assert names(draft, tmp_path) == ["x", "''", "F1", ".F1", "'"]


def test_blocks_that_lie_inside_each_other_too_often(tmp_path: Path) -> None:
    """Each is looked into, so that this takes the longer the deeper they lie."""
    draft = Draft()
    inside = made = draft.placeholder("P", 2)
    for index in range(200):
        made = draft.function("Tanh", f"F{index}", made)
    root = "F199"
    for index in range(110):
        outer = draft.placeholder(f"P{index}", 2)
        draft.block(f"B{index}", root, **{inside: outer})
        inside, root = outer, f"B{index}"
    draft.block("Whole", root, **{inside: draft.input("x", 2)})
    assert refused(draft, tmp_path) == "its blocks lie inside each other too often"
