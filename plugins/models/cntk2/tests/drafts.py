"""Files of CNTK 2 put together by hand, with what the original would never write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.load import Cntk2Model, load_model
from cntk_model_cntk2.operations import OPERATIONS
from cntk_model_cntk2.records import BLOCK, COMBINE, CONSTANT, INPUT, PARAMETER, PLACEHOLDER
from cntk_model_cntk2.values import NOT_STATIC, Array, Axis, NDShape, SizeT

from cntk_core.api import Network, Node, core_ops

BATCH = Axis(NOT_STATIC, "defaultBatchAxis", False)
STEPS = Axis(NOT_STATIC, "defaultDynamicAxis", True)
AXES = {"none": [], "batch": [BATCH], "sequence": [STEPS, BATCH]}
NUMBERS = {operation.name: number for number, operation in OPERATIONS.items()} | {"Combine": COMBINE, "Block": BLOCK}


class Draft:
    """A file that becomes longer with each call. Dimensions are in CNTK's order; what is added is called as its uid."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.functions: list[dict[str, Any]] = []

    def variable(self, kind: int, uid: str, dims: tuple[int, ...], axes: str = "none", **more: Any) -> str:
        record = {"uid": uid, "kind": SizeT(kind), "data_type": SizeT(1), "shape": NDShape(dims), "name": uid}
        self.inputs.append({**record, "dynamic_axis": AXES[axes], **more})
        return uid

    def input(self, uid: str, *dims: int, axes: str = "sequence", **more: Any) -> str:
        return self.variable(INPUT, uid, dims, axes, **more)

    def placeholder(self, uid: str, *dims: int, axes: str = "sequence", **more: Any) -> str:
        return self.variable(PLACEHOLDER, uid, dims, axes, **more)

    def parameter(self, uid: str, *dims: int, value: float = 1.0, kind: int = PARAMETER, **more: Any) -> str:
        values = np.full(int(np.prod(dims)), value, np.float32)
        return self.variable(kind, uid, dims, value=Array(dims, values), **more)

    def constant(self, uid: str, value: float, *dims: int) -> str:
        return self.parameter(uid, *dims, value=value, kind=CONSTANT)

    def function(self, called: str | int, uid: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a function, by the original's name of its operation; return the uid of its first output."""
        number = called if isinstance(called, int) else NUMBERS[called]
        record = {"type": "PrimitiveFunction", "uid": uid, "op": SizeT(number), "version": SizeT(24), "name": name}
        self.functions.append({**record, "inputs": list(inputs), "attributes": attributes})
        return f"{uid}_Output_0"

    def block(self, uid: str, root: str, kind: str = "Part", name: str = "", **arguments: str) -> str:
        """Add a block: what its placeholders stand for."""
        made = self.function("Block", uid, *arguments.values(), name=name)
        self.functions[-1] |= {
            "block_function_composite": {"type": "CompositeFunction", "root": root},
            "block_function_op_name": kind,
            "block_function_composite_arguments_map_keys": list(arguments),
            "block_function_composite_arguments_map_values": list(arguments.values()),
        }
        return made

    def values(self, root: str = "") -> dict[str, Any]:
        """Return all that the file says; its root is the function that came last unless there is another."""
        return {
            "version": SizeT(3),
            "type": "CompositeFunction",
            "root": root or self.functions[-1]["uid"],
            "inputs": self.inputs,
            "primitive_functions": self.functions,
        }

    def load(self, folder: Path, root: str = "") -> Cntk2Model:
        """Write it as ``x.model`` and read it."""
        path = folder / "x.model"
        path.write_bytes(b"".join(map(bytes, encode(self.values(root)))))
        return load_model(path, core_ops().find)


def line(node: Node) -> str:
    """A node with what it reads, and its shape in memory order."""
    inputs = ", ".join(child.name for child in node.inputs)
    return f"{node.name} = {node.op.name}({inputs}) {list(node.known_shape)}"


def lines(network: Network) -> list[str]:
    """What a network computes."""
    return [line(node) for node in network if node.inputs]
