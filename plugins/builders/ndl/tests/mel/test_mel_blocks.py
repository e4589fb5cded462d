"""Scripts that edit a network with blocks."""

from __future__ import annotations

import pytest
from mel_scripts import Disk

from cntk_core.api import Location, Network
from cntk_core.api.builders import Block


@pytest.fixture
def with_blocks(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """``net.dnn`` has the block ``L1``, a layer, and ``L1.FF`` in it."""

    plain = Disk.load

    def load(self: Disk, path: str, where: Location | None = None) -> Network:
        network = plain(self, path, where)
        times, plus, sigmoid = (network[f"L1.{name}"] for name in ("FF.T", "FF.P", "S"))
        network.add_block(Block("L1.FF", "BFF", {times: None, plus: None}, [plus], {"a": [(times, 1)]}))
        network.add_block(
            Block("L1", "Layer", {times: None, plus: None, sigmoid: None}, [sigmoid], {"a": [(times, 1)]})
        )
        return network

    monkeypatch.setattr(Disk, "load", load)
    return disk


def shown(network: Network) -> list[tuple[str, list[str], dict[str, str]]]:
    return [
        (block.name, [node.name for node in block.nodes], {name: node.name for name, node in block.operands.items()})
        for block in network.blocks
    ]


INNER = ("L1.FF", ["L1.FF.T", "L1.FF.P"], {"a": "features"})
OUTER = ("L1", ["L1.FF.T", "L1.FF.P", "L1.S"], {"a": "features"})


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("", [INNER, OUTER]),
        (
            "Rename(L1.*, K.*)",
            [
                ("L1.FF", ["K.FF.T", "K.FF.P"], {"a": "features"}),
                ("L1", ["K.FF.T", "K.FF.P", "K.S"], {"a": "features"}),
            ],
        ),
        ("X=Tanh(features)\nSetNodeInput(L1.FF.T, 1, X)", [(*INNER[:2], {"a": "X"}), (*OUTER[:2], {"a": "X"})]),
        ("R=Tanh(L1.FF.P)\nSetNodeInput(OL.T, 1, R)\nRemoveNode(L1.S)", [INNER]),
        (
            "R=Tanh(features)\nSetNodeInput(L1.S, 0, R)\nRemoveNode(L1.FF.*)",
            [("L1", ["L1.S"], {})],
        ),
        (
            "CopyNode(L1.*, L2.*)\nSetNodeInput(L2.FF.T, 1, features)",
            [
                INNER,
                OUTER,
                ("L1.FF", ["L2.FF.T", "L2.FF.P"], {"a": "features"}),
                ("L1", ["L2.FF.T", "L2.FF.P", "L2.S"], {"a": "features"}),
            ],
        ),
        (
            "CopySubTree(L1.S, m, c.)",
            [
                INNER,
                OUTER,
                ("c.L1.FF", ["c.L1.FF.T", "c.L1.FF.P"], {"a": "c.features"}),
                ("c.L1", ["c.L1.FF.T", "c.L1.FF.P", "c.L1.S"], {"a": "c.features"}),
            ],
        ),
        ("CopyNode(L1.FF.W, W2, copy=all)\nCopyNode(L1.FF.W, W2, copy=value)", [INNER, OUTER]),
    ],
)
def test_blocks_are_what_an_edit_leaves_of_them(with_blocks: Disk, script: str, wanted: object) -> None:
    assert shown(with_blocks.edit(script)) == wanted


def test_blocks_go_into_another_model(with_blocks: Disk) -> None:
    found = with_blocks.run("a=CreateModel()\nb=LoadModel(net.dnn)\nCopyNode(b, a.*)\nSetProperty(ce, criterion, true)")
    assert shown(found) == [INNER, OUTER]
