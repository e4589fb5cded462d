"""What each recorded model of the original is here: its outputs, parameters and blocks, also when written again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cntk_model_cntk2.load import Cntk2Model, load_model
from cntk_model_cntk2.save import save_model
from golden_files import index, write

from cntk_core.api import Network, core_ops

find_op = core_ops().find
ROLES = ("output", "criterion", "evaluation")
READ: dict[str, Any] = json.loads(Path(__file__).with_name("read.json").read_text(encoding="utf-8"))
"""For each model its roots by role, its parameters in the order of the original's, and its blocks."""


def blocks_of(network: Network) -> list[str]:
    """Each block: its kind, its name, how many functions it has, how often it reads each argument, what it gives."""
    found = []
    for block in network.blocks:
        arguments = ", ".join(f"{name} x{len(places)}" for name, places in block.arguments.items())
        outputs = ", ".join(node.name for node in block.outputs)
        found.append(f"{block.kind} {block.name}: {len(block.nodes)} ({arguments}) -> {outputs}")
    return found


def told(model: Cntk2Model) -> dict[str, Any]:
    network = model.network
    return {
        "roots": [f"{role}: {node.name}" for role in ROLES for node in network.roots[role]],
        "parameters": [f"{parameter.name} {parameter.known_shape}" for parameter in model.parameters.values()],
        "fixed": [leaf.name for leaf in model.leaves.values() if not leaf.learned],
        "blocks": blocks_of(network),
    }


def models(folder: Path) -> Iterator[tuple[str, Path, Cntk2Model]]:
    for name in index():
        path = write(name, folder)
        yield name, path, load_model(path, find_op)


def kinds_of(network: Network) -> list[tuple[str, int, int]]:
    return sorted((block.kind, len(block.nodes), len(block.outputs)) for block in network.blocks)


def test_each_model(tmp_path: Path) -> None:
    for name, _, model in models(tmp_path):
        said = index()[name]
        for found, one in zip(model.results, said["outputs"], strict=True):
            assert (found.name, found.uid, found.axes) == (one["name"], one["uid"], one["axes"]), name
            assert len(found.shape) == len(one["shape"]), name
            assert all(size in (ours, 0, -3) for ours, size in zip(found.shape, one["shape"], strict=True)), name
        assert {node.name for node in model.network.inputs} == {each["name"] for each in said["inputs"]}, name
        assert all(node.shape is not None for node in model.network), name
        assert told(model) == READ[name], name


def test_each_model_that_is_written_with_its_blocks(tmp_path: Path) -> None:
    """Its blocks come back; those without a name may have another uid."""
    for name, path, model in models(tmp_path):
        save_model(model.network, path, blocks=True)
        again = load_model(path, find_op)
        assert told(again)["roots"] == READ[name]["roots"], name
        assert kinds_of(again.network) == kinds_of(model.network), name
