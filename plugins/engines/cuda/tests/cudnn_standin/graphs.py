"""Graphs of the stand-in: one product of a convolution each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cntk_testing_gpu.cupy_stand_in.streams import current_stream, launch
from cudnn_standin.notes import build_plan_policy, data_type, heur_mode, numerical_note
from cudnn_standin.products import Window

TYPES = {data_type.FLOAT: np.dtype(np.float32), data_type.DOUBLE: np.dtype(np.float64)}
ALIGNMENT = 16


class cudnnGraphNotSupportedError(Exception):
    """There is no plan for a graph."""


class Refusals:
    """Graphs for which there is no plan, for tests.

    Attributes:
        wanted: whether a graph with an operation's name is refused.
        made: operations of all plans that were built.
        notes: what was deselected for the last of them.
    """

    def __init__(self) -> None:
        self.wanted: Callable[[str], bool] = lambda operation: False
        self.made: list[str] = []
        self.notes: frozenset[numerical_note] = frozenset()


state = Refusals()


def packed(shape: Sequence[int]) -> list[int]:
    """Strides of an array in one piece."""
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


def _integers(what: str, numbers: Any, least: int, count: int | None = None) -> list[int]:
    if not isinstance(numbers, list | tuple) or any(type(number) is not int for number in numbers):
        raise TypeError(f"{what}: a list of integers was expected, not {numbers!r}")
    if any(number < least for number in numbers) or count not in (None, len(numbers)):
        raise ValueError(f"CUDNN_STATUS_BAD_PARAM: {what} {numbers}")
    return list(numbers)


class Tensor:
    """What a graph takes or gives."""

    def __init__(self, graph: pygraph, name: str, dim: Any, stride: Any, kind: data_type, uid: int | None) -> None:
        self._graph = graph
        self.name, self.kind, self.uid = name, kind, uid
        self.dim: list[int] = [] if dim is None else _integers(f"dim of {name}", dim, 1)
        self.stride: list[int] = [] if stride is None else _integers(f"stride of {name}", stride, 1)
        self.is_virtual = dim is None

    def _change(self, name: str, value: Any) -> Tensor:
        if self._graph.stage:
            raise RuntimeError("the graph is validated: nothing may change any more")
        setattr(self, name, value)
        return self

    def set_output(self, value: bool) -> Tensor:
        """It has a place in memory."""
        return self._change("is_virtual", not value)

    def set_uid(self, uid: int) -> Tensor:
        """The number by which it is given."""
        return self._change("uid", uid)

    def set_data_type(self, dtype: data_type) -> Tensor:
        """Type of its elements."""
        return self._change("kind", data_type(dtype))

    def set_dim(self, dim: list[int]) -> Tensor:
        """Its dimensions."""
        return self._change("dim", _integers(f"dim of {self.name}", dim, 1))

    def set_stride(self, stride: list[int]) -> Tensor:
        """Its strides."""
        return self._change("stride", _integers(f"stride of {self.name}", stride, 1))

    def get_uid(self) -> int:
        """The number by which it is given."""
        assert self.uid is not None
        return self.uid


STAGES = (
    "new", "validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans",
)  # fmt: skip


class pygraph:
    """One product of a convolution."""

    def __init__(
        self,
        name: str = "test_graph",
        io_data_type: Any = None,
        intermediate_data_type: Any = None,
        compute_data_type: Any = None,
        handle: Any = None,
    ) -> None:
        assert handle is not None, "where there is no GPU the frontend wants device properties"
        self.stage = 0
        self._kinds = io_data_type, intermediate_data_type, compute_data_type
        self._handle = handle
        self._tensors: list[Tensor] = []
        self._operation: tuple[str, list[Tensor], Tensor, Window] | None = None
        self._barred: set[numerical_note] = set()
        self._workspace_limit: int | None = None

    # -- what is computed ---------------------------------------------------------------------------------

    def tensor(
        self,
        dim: list[int],
        stride: list[int] | None = None,
        data_type: Any = None,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        ragged_offset: Any = None,
        reordering_type: Any = None,
        name: str = "",
        uid: int | None = None,
    ) -> Tensor:
        """A tensor that is given."""
        assert (is_virtual, is_pass_by_value, ragged_offset, reordering_type) == (False, False, None, None)
        made = Tensor(self, name, dim, stride or packed(dim), data_type or self._kinds[0], uid)
        self._tensors.append(made)
        return made

    def conv_fprop(self, image: Tensor, weight: Tensor, **settings: Any) -> Tensor:
        """Maps of an image."""
        return self._convolution("conv_fprop", [image, weight], **settings)

    def conv_dgrad(self, loss: Tensor, filter: Tensor, **settings: Any) -> Tensor:
        """The gradient of an image."""
        return self._convolution("conv_dgrad", [loss, filter], **settings)

    def conv_wgrad(self, image: Tensor, loss: Tensor, **settings: Any) -> Tensor:
        """The gradient of weights."""
        return self._convolution("conv_wgrad", [image, loss], **settings)

    def _convolution(
        self,
        operation: str,
        operands: list[Tensor],
        *,
        pre_padding: list[int],
        post_padding: list[int],
        stride: list[int],
        dilation: list[int],
        compute_data_type: Any = None,
        name: str = "",
    ) -> Tensor:
        assert self._operation is None, "the stand-in knows graphs of one operation"
        assert all(operand in self._tensors for operand in operands)
        axes = len(operands[0].dim) - 2
        window = Window(
            _integers("pre_padding", pre_padding, 0, axes),
            _integers("post_padding", post_padding, 0, axes),
            _integers("stride", stride, 1, axes),
            _integers("dilation", dilation, 1, axes),
        )
        out = Tensor(self, f"{name}::Y", None, None, self._kinds[1], None)
        self._kinds = (*self._kinds[:2], compute_data_type or self._kinds[2])
        self._operation = operation, operands, out, window
        return out

    # -- stages -------------------------------------------------------------------------------------------

    def _go(self, name: str) -> None:
        if current_stream().capturing:
            raise RuntimeError(f"{name} while a stream is captured")
        if STAGES.index(name) != self.stage + 1:
            raise RuntimeError(f"{name} after {STAGES[self.stage]}")
        self.stage += 1

    def validate(self) -> None:
        """Check what is asked for."""
        self._go("validate")
        assert self._operation is not None
        operation, operands, out, window = self._operation
        all_tensors = [*operands, out]
        if out.is_virtual:
            raise ValueError("the result has no place in memory")
        if len({tensor.uid for tensor in all_tensors}) != 3 or None in [tensor.uid for tensor in all_tensors]:
            raise ValueError("tensors without numbers of their own")
        if any(len(tensor.dim) not in (4, 5) for tensor in all_tensors):
            raise cudnnGraphNotSupportedError("CUDNN_STATUS_NOT_SUPPORTED: convolutions have 4 or 5 dimensions")
        if any(tensor.stride != packed(tensor.dim) for tensor in all_tensors):
            raise ValueError("the stand-in knows tensors in one piece")
        if len({tensor.kind for tensor in all_tensors} | {self._kinds[2]}) != 1:
            raise ValueError("the stand-in knows graphs of one type")
        image, weights, maps = {
            "conv_fprop": (*operands, out),
            "conv_dgrad": (out, operands[1], operands[0]),
            "conv_wgrad": (operands[0], out, operands[1]),
        }[operation]
        counts = window.counts(image.dim[2:], weights.dim[2:])
        groups, rest = divmod(image.dim[1], weights.dim[1])
        divided = groups > 0 == rest == weights.dim[0] % max(groups, 1)
        if maps.dim != [image.dim[0], weights.dim[0], *counts] or not divided or min(counts) < 1:
            raise ValueError(f"CUDNN_STATUS_BAD_PARAM: {operation}: {image.dim}, {weights.dim}, {maps.dim}")

    def build_operation_graph(self) -> None:
        """Hand it to the library."""
        self._go("build_operation_graph")

    def create_execution_plans(self, heuristics: list[heur_mode] | None = None) -> None:
        """Ask for plans."""
        self._go("create_execution_plans")
        assert heuristics
        assert all(isinstance(mode, heur_mode) for mode in heuristics)

    def _select(self, what: str) -> None:
        # The frontend forgets, or worse, what comes before there are plans.
        assert STAGES[self.stage] == "create_execution_plans", f"{what} after {STAGES[self.stage]}"

    def deselect_numeric_notes(self, notes: list[numerical_note]) -> pygraph:
        """Leave plans out."""
        self._select("deselect_numeric_notes")
        self._barred |= {numerical_note(note) for note in notes}
        return self

    def deselect_workspace_greater_than(self, workspace_limit: int) -> pygraph:
        """Leave plans out."""
        self._select("deselect_workspace_greater_than")
        self._workspace_limit = workspace_limit
        return self

    def check_support(self) -> None:
        """Fail if there is no plan."""
        self._go("check_support")
        assert self._operation is not None
        if state.wanted(self._operation[0]):
            raise cudnnGraphNotSupportedError("[cudnn_frontend] Error: No execution plans support the graph.\n")
        assert self._workspace_limit is not None
        if self._size() > self._workspace_limit:
            raise cudnnGraphNotSupportedError("no plan does with so little work space")

    def build_plans(self, policy: build_plan_policy = build_plan_policy.HEURISTICS_CHOICE) -> None:
        """Make the best plan ready."""
        self._go("build_plans")
        assert policy is build_plan_policy.HEURISTICS_CHOICE
        assert self._operation is not None
        state.made.append(self._operation[0])
        state.notes = frozenset(self._barred)

    def _size(self) -> int:
        assert self._operation is not None
        return 20 if self._operation[0] == "conv_wgrad" else 4 * self._operation[2].dim[0]

    def get_workspace_size(self) -> int:
        """Bytes that the plan needs."""
        self._built()
        return self._size()

    def _built(self) -> None:
        if STAGES[self.stage] != "build_plans":
            raise RuntimeError("Call build() first")

    # -- execution ----------------------------------------------------------------------------------------

    def execute(self, tensor_dict: Mapping[int, int], /, workspace: int, handle: Any = None) -> None:
        """Compute."""
        self._built()
        assert self._operation is not None
        operation, operands, out, window = self._operation
        stream = current_stream()
        assert handle is self._handle
        assert stream.ptr == handle.stream, "the product is computed on another stream than that of its arguments"
        if set(tensor_dict) != {tensor.get_uid() for tensor in (*operands, out)}:
            raise ValueError(f"the variant pack has tensors {sorted(tensor_dict)}")
        for place in (*tensor_dict.values(), workspace):
            if type(place) is not int or not place or place % ALIGNMENT:
                raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: {place!r}")
        first, second = (_array(tensor_dict[tensor.get_uid()], tensor) for tensor in operands)
        result = _array(tensor_dict[out.get_uid()], out)
        room = np.ctypeslib.as_array((ctypes.c_ubyte * self._size()).from_address(workspace))

        def work() -> None:
            room[...] = 255  # what lies there is lost
            result[...] = np.nan  # and what lay there counts for nothing
            one, other = first.astype(np.float64), second.astype(np.float64)
            if operation == "conv_fprop":
                result[...] = window.to_maps(one, other)
            elif operation == "conv_dgrad":
                result[...] = window.to_image(one, other, out.dim[1], out.dim[2:])
            else:
                result[...] = window.to_weights(one, other, out.dim[1], out.dim[2:])
            room[...] = 255

        launch("cudnn", work)


def _array(place: int, tensor: Tensor) -> Any:
    kind = {np.dtype(np.float32): ctypes.c_float, np.dtype(np.float64): ctypes.c_double}[TYPES[tensor.kind]]
    size = int(np.prod(tensor.dim, dtype=np.int64))
    return np.ctypeslib.as_array((kind * size).from_address(place)).reshape(tensor.dim)
