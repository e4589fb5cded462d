"""Model files: one file per model, a safetensors file whose metadata describe the network.

The arrays are the parameters and precomputed values by node name (memory order). The metadata have ``format``,
``version``, ``network`` (JSON: the nodes in order, the groups of roots, the precision and, where there are any, the
blocks), ``training`` (JSON: how far training had come) and, where any took part, ``plugins`` (JSON: kind, name, wheel
and version of each). The same network always gives the same bytes.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CntkError, ModelFormatError, NetworkError, PluginError
from cntk_core.network.attribute_types import wrong_attribute
from cntk_core.network.blocks import Block, nest
from cntk_core.network.network import Network, placeholder_left
from cntk_core.network.node import ROLES, Input, Node, Parameter, Placeholder
from cntk_core.network.tensor_file import (
    MAX_HEADER,
    MAX_RANK,
    TensorFile,
    check_is_file,
    parse_tensors,
    read_metadata,
    read_tensors,
    tensor_chunks,
    whole_numbers,
    write_tensors,
)
from cntk_core.network.unsound import unsound
from cntk_core.ops.families.leaves import INPUT, PARAMETER, SPARSE_INPUT
from cntk_core.ops.language.op import Op, OpNames
from cntk_core.ops.language.shapes import Free, Longest, Shape, is_free, longest_axes, show
from cntk_core.ops.table import FindOp
from cntk_core.records.origin import Origin, as_entries, of_entries

FORMAT = "cntk-core-model"
VERSION = 1
LANGUAGE = "model"
"""The language in which op names are looked up."""

_METADATA = "__metadata__"
_MARK = "node:"
_PRECISIONS: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}


@attrs.frozen
class ModelInfo:
    """How far the training of a model had come.

    Attributes:
        epochs: epochs done; None if the model was not written by training.
        samples: samples seen.
    """

    epochs: int | None = None
    samples: int = 0


def save_model(
    network: Network, path: str | Path, info: ModelInfo | None = None, *, scratch: Path | None = None
) -> None:
    """Write a network with its values in one step: at every instant the old or the new file is there.

    ``scratch`` is a folder for what is not whole yet; by default that stands beside the file.

    Raises:
        OSError: the file cannot be written; an old one is untouched.
        ModelFormatError: a parameter has no value, or an attribute of a node cannot be written.
        NetworkError: a placeholder is left.
    """
    arrays, metadata = network_content(network, info)
    write_tensors(Path(path), arrays, metadata, scratch=scratch)


def pickled(network: Network) -> tuple[Any, ...]:
    """Return how a network is pickled: by the bytes of its model file, and what finds ops in another process."""
    return network_of_bytes, (b"".join(tensor_chunks(*network_content(network))), OpNames.find)


def network_of_bytes(content: bytes, find: Callable[[str], Op]) -> Network:
    """Return the network of a model file's bytes.

    Args:
        content: the bytes.
        find: ``name -> Op``; raises PluginError where there is none.

    Raises:
        ModelFormatError: they are damaged, or an operation is not installed here.
    """

    @functools.cache
    def find_op(language: str, name: str) -> Op | None:
        with suppress(PluginError):
            return find(name)
        return None

    return _load(Path("the pickled network"), content, find_op, None)


def network_content(network: Network, info: ModelInfo | None = None) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return what a model file holds: arrays by the name of their node, and texts.

    Raises:
        ModelFormatError, NetworkError: as :func:`save_model`.
    """
    arrays: dict[str, NDArray[Any]] = {}
    nodes = []
    for node in network:
        nodes.append(_describe(node))
        if node.value is not None:
            arrays[_key(node.name)] = node.value
        elif isinstance(node, Parameter):
            raise ModelFormatError(f"the parameter '{node.name}' has no value that could be saved", where=node.where)
    graph: dict[str, Any] = {
        "nodes": nodes,
        "precision": "double" if network.dtype == np.float64 else "float",
        "roots": {role: [node.name for node in network.roots[role]] for role in ROLES},
    }
    if network.blocks:
        graph["blocks"] = [block.as_entry() for block in network.blocks]
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "network": json.dumps(graph, separators=(",", ":"), sort_keys=True),
        "training": json.dumps(attrs.asdict(info or ModelInfo()), sort_keys=True),
    }
    if network.origins:
        metadata["plugins"] = json.dumps(as_entries(network.origins), sort_keys=True)
    return arrays, metadata


def _key(name: str) -> str:
    """Name of a node's array in the file. The format keeps one name for itself; a mark sets ours apart from it."""
    return _MARK + name if name.startswith((_METADATA, _MARK)) else name


def _describe(node: Node) -> dict[str, Any]:
    if isinstance(node, Placeholder):
        raise placeholder_left(node)
    if node.shape is None:
        raise ModelFormatError(f"{node.op.name} '{node.name}' has no shape yet and cannot be saved", where=node.where)
    shape = [_open_dim(dim) if isinstance(dim, Longest | Free) else dim for dim in node.known_shape]
    entry: dict[str, Any] = {"name": node.name, "op": node.op.name, "shape": shape}
    if node.axis:
        entry["axis"] = node.axis
    if node.inputs:
        entry["inputs"] = [child.name for child in node.inputs]
    attributes = {
        field.name: _encode(value, node)
        for field in attrs.fields(type(node.attributes))
        if (value := getattr(node.attributes, field.name)) != field.default or "later" not in field.metadata
    }
    if attributes:
        entry["attributes"] = attributes
    if isinstance(node, Parameter):
        entry["learningRateMultiplier"] = node.learning_rate_multiplier
        entry["regularizationMultiplier"] = node.regularization_multiplier
        entry["needsGradient"] = node.needs_gradient
    if isinstance(node, Input):
        entry |= {} if node.framed else {"framed": False}
        entry |= {"needsGradient": True} if node.needs_gradient else {}
    return entry


def _open_dim(dim: Longest | Free) -> dict[str, Any]:
    if isinstance(dim, Longest):
        return {"samples" if dim.samples else "longest": dim.axis}
    return {"free": dim.name, "tried": list(dim.tried)}


def _encode(value: Any, node: Node) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, tuple | list):
        return [_encode(item, node) for item in value]
    raise ModelFormatError(
        f"{node.op.name} '{node.name}' has an attribute of type {type(value).__name__}, which cannot be saved",
        hint="Attributes of an op are numbers, texts, truth values, and tuples of them.",
    )


# -- reading ----------------------------------------------------------------------------------------------


def is_own_format(begin: bytes) -> bool:
    """Whether a file begins with the size of a header and the header; a recipe does not."""
    return begin[8:9] == b"{" and int.from_bytes(begin[:8], "little") <= MAX_HEADER


def read_model_info(path: str | Path) -> ModelInfo:
    """Read how far the training of a model had come, without reading the model; only files of ours say it.

    Raises:
        ModelFormatError: it is damaged, or cannot be read.
    """
    path = Path(path)
    if not is_own_format(_begin(path)):
        return ModelInfo()
    metadata = read_metadata(path)
    _check_format(metadata, path)
    return _info(metadata)


def read_model_origins(path: str | Path) -> tuple[Origin, ...]:
    """Read which plugins took part in a model, without reading the model; only files of ours say it.

    Raises:
        ModelFormatError: it is damaged, or cannot be read.
    """
    path = Path(path)
    if not is_own_format(_begin(path)):
        return ()
    metadata = read_metadata(path)
    _check_format(metadata, path)
    return _origins(metadata)


def _origins(metadata: Mapping[str, str]) -> tuple[Origin, ...]:
    try:
        return of_entries(json.loads(metadata.get("plugins", "[]")))
    except (ValueError, RecursionError):
        return ()


def _info(metadata: Mapping[str, str]) -> ModelInfo:
    try:
        found = json.loads(metadata.get("training", "{}"))
        epochs, samples = found.get("epochs"), found.get("samples", 0)
    except (ValueError, AttributeError, RecursionError):
        return ModelInfo()
    if not isinstance(epochs, int) or not isinstance(samples, int):
        return ModelInfo()
    return ModelInfo(epochs, samples)


def load_model(path: str | Path, find_op: FindOp, dtype: Any = None) -> Network:
    """Read a network with its values, from a file of ours, and infer its shapes.

    Args:
        path: the file.
        find_op: ``(language, name) -> Op or None``; the language is ``"model"``.
        dtype: convert to this precision; None keeps that of the file.

    Raises:
        ModelFormatError: the file is missing, damaged, from a newer version, or describes no sound network.
    """
    path = Path(path)
    _begin(path)  # what cannot be opened is a model that cannot be read, not a damaged one
    return _load(path, None, find_op, dtype)


def _load(path: Path, given: bytes | None, find_op: FindOp, dtype: Any) -> Network:
    content = read_tensors(path) if given is None else parse_tensors(given, path)
    return network_of_content(path, content.arrays, content.metadata, find_op, dtype)


def network_of_content(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str], find_op: FindOp, dtype: Any = None
) -> Network:
    """Return the network of what :func:`network_content` gave; ``path`` is named in errors, which are as above."""
    _check_format(metadata, path)
    try:
        return _Loader(path, TensorFile(arrays, metadata), find_op, dtype).load()
    except CntkError:
        raise
    except Exception as error:
        # Whatever a hostile description makes an op's shape rule do, it is the file that is wrong.
        raise ModelFormatError(f"'{path}' is damaged: its description of the network makes no sense") from error


def _begin(path: Path) -> bytes:
    check_is_file(path, "model")
    try:
        with path.open("rb") as file:
            return file.read(9)  # the size of a header, and its first byte
    except OSError as error:
        raise ModelFormatError(f"the model '{path}' cannot be read: {error.strerror}") from None


def _check_format(metadata: Mapping[str, str], path: Path) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFormatError(f"'{path}' is not a model file of this program")
    version = metadata.get("version", "")
    if version != str(VERSION):
        raise ModelFormatError(
            f"'{path}' has format version {version or 'unknown'}; this program reads version {VERSION}",
            hint="Read it with the version of the program that wrote it, or a newer one.",
        )


def _missing_ops(path: Path, missing: list[str], origins: tuple[Origin, ...]) -> ModelFormatError:
    """Say which ops are not there, and what has them as far as the file tells."""
    of_op = {origin.name: origin for origin in origins if origin.kind == "op"}
    known = list(dict.fromkeys(of_op[name] for name in missing if name in of_op))
    listed = [f"{name} of {of_op[name].source}" if name in of_op else name for name in missing[:10]]
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    wheels = list(dict.fromkeys(origin.wheel for origin in known if origin.version))
    lines = [f"pip install {' '.join(wheels)}"] if wheels else []
    lines += [f"--plugin {file}" for file in dict.fromkeys(one.wheel for one in known if not one.version)]
    if len(known) < len(missing):
        lines.append("Install the plugin that they come from." if not known else "Install the plugins of the others.")
    return ModelFormatError(
        f"'{path}' uses operations that are not there: {', '.join(listed)}{more}", hint="\n".join(lines)
    )


class _Loader:
    def __init__(self, path: Path, content: TensorFile, find_op: FindOp, dtype: Any) -> None:
        self.path = path
        self.content = content
        self.find_op = find_op
        self.graph: dict[str, Any] = json.loads(content.metadata["network"])
        self.dtype: np.dtype[Any] = _PRECISIONS[self.graph["precision"]]
        if dtype is not None:
            self.dtype = np.dtype(dtype)

    def load(self) -> Network:
        network = Network(self.dtype)
        network.origins = _origins(self.content.metadata)
        entries = list(self.graph["nodes"])
        self._check_ops(entries)
        try:
            for entry in entries:
                network.add(self._node(entry))
            for entry in entries:
                network[entry["name"]].inputs = [self._find(network, name) for name in entry.get("inputs", ())]
            for role in ROLES:
                members = [self._find(network, name) for name in self.graph["roots"].get(role, ())]
                network.roots[role] = list(dict.fromkeys(members))
            entries = self.graph.get("blocks", [])
            network.blocks = [Block.of_entry(entry, lambda name: self._find(network, name)) for entry in entries]
            nest(network.blocks)
            declared = {node: node.shape for node in network}
            network.infer()
        except ModelFormatError:
            raise
        except CntkError as error:
            raise unsound(self.path, error) from None
        for node, shape in declared.items():
            self._check_shape(node, shape)
        return network

    def _find(self, network: Network, name: Any) -> Node:
        """Return a node by name, without looking for a similar name: that takes long in a large file."""
        if not isinstance(name, str) or name not in network:
            raise unsound(self.path, NetworkError(f"the network has no node '{name}'"))
        return network[name]

    def _check_ops(self, entries: list[dict[str, Any]]) -> None:
        known = {op.name for op in (INPUT, SPARSE_INPUT, PARAMETER)}
        names = dict.fromkeys(str(entry["op"]) for entry in entries if entry["op"] not in known)
        missing = [name for name in names if self.find_op(LANGUAGE, name) is None]
        if missing:
            raise _missing_ops(self.path, missing, _origins(self.content.metadata))

    def _node(self, entry: Mapping[str, Any]) -> Node:
        name, op, axis = str(entry["name"]), entry["op"], str(entry.get("axis", ""))
        shape = _read_shape(entry["shape"])
        is_leaf = op in (INPUT.name, SPARSE_INPUT.name, PARAMETER.name)
        wrong = is_leaf and shape is not None and (longest_axes(shape) or (op != INPUT.name and is_free(shape)))
        if shape is None or len(shape) > MAX_RANK or wrong:
            raise ModelFormatError(f"'{self.path}' is damaged: the dimensions of '{name}' make no sense")
        if op in (INPUT.name, SPARSE_INPUT.name):
            sparse, framed, wanted = (
                op == SPARSE_INPUT.name,
                entry.get("framed", True),
                entry.get("needsGradient", False),
            )
            return Input.make(name, shape, sparse=sparse, axis=axis, framed=bool(framed), needs_gradient=bool(wanted))
        if op == PARAMETER.name:
            return self._parameter(entry, name, shape)
        found = self.find_op(LANGUAGE, str(op))
        assert found is not None
        node = Node(name, found, shape=shape, axis=axis, attributes=self._attributes(entry, found))
        if _key(name) in self.content.arrays:
            node.value = self._array(name, shape)
        return node

    def _parameter(self, entry: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Parameter:
        parameter = Parameter.make(
            name, shape, value=self._array(name, shape), learning_rate_multiplier=float(entry["learningRateMultiplier"])
        )
        parameter.regularization_multiplier = float(entry["regularizationMultiplier"])
        parameter.needs_gradient = bool(entry["needsGradient"])
        return parameter

    def _array(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = self.content.arrays.get(_key(name))
        if array is None:
            raise ModelFormatError(f"'{self.path}' is damaged: it has no values for '{name}'")
        if array.shape != shape:
            raise ModelFormatError(
                f"'{self.path}' is damaged: '{name}' is {show(shape)}, but its values are {show(array.shape)}"
            )
        with np.errstate(all="ignore"):  # what is too large for single precision becomes infinite
            return array.astype(self.dtype, copy=False)

    def _attributes(self, entry: Mapping[str, Any], op: Op) -> Any:
        given = {name: _decode(value) for name, value in entry.get("attributes", {}).items()}
        fields = {field.name: field for field in attrs.fields(op.attributes)}
        unknown = [name for name in given if name not in fields]
        if unknown:
            raise ModelFormatError(
                f"'{self.path}': {op.name} '{entry['name']}' has the unknown attribute '{unknown[0]}'",
                hint="The model was probably written by a newer version.",
            )
        wrong = wrong_attribute(op.attributes, given)
        if wrong:
            raise ModelFormatError(f"'{self.path}' is damaged: {op.name} '{entry['name']}' has a wrong '{wrong}'")
        return op.attributes(**{fields[name].alias or name: value for name, value in given.items()})

    def _check_shape(self, node: Node, declared: tuple[int, ...] | None) -> None:
        if node.shape != declared:
            raise ModelFormatError(
                f"'{self.path}' holds no sound network: '{node.name}' is {show(declared or ())} in the file, "
                f"but its inputs make it {show(node.known_shape)}"
            )


def _read_shape(values: Any) -> Shape | None:
    """Return a shape, None if it is none: whole numbers, and open dimensions."""
    if not isinstance(values, list):
        return None
    dims: list[Any] = [_read_open(dim) if isinstance(dim, dict) else dim for dim in values]
    if whole_numbers([dim for dim in dims if not isinstance(dim, Longest | Free)]) is None:
        return None
    return tuple(dims)


def _read_open(entry: Mapping[str, Any]) -> int | None:
    """Return an open dimension, None if it is none."""
    for kind in ("longest", "samples"):
        if isinstance(entry.get(kind), str):
            return Longest(entry[kind], kind == "samples")
    name, tried = entry.get("free"), whole_numbers(entry.get("tried"))
    return Free(name, tried) if isinstance(name, str) and tried is not None and len(tried) == 2 else None


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        return float(value["float"])
    return value
