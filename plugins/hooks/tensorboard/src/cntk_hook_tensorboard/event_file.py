"""An event file: what TensorBoard reads. tensorboardX knows the format; it is loaded when a file is made."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_hook_tensorboard.graph import GraphNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION = "brain.Event:2"
BINS = 30
"""Bars of a histogram."""

_PRODUCER = 22
"""Version of graphs that every TensorBoard reads."""

_NOT_IN_TAGS = re.compile(r"[^-/\w.]")


class EventFile:
    """A new event file in a folder, which is made.

    What is written is in the file at once: tensorboardX's own writer hands it to a thread, and training would wait for
    that thread for ever if it had died of a full disk.

    Args:
        folder: where the file goes; others may be there.

    Raises:
        OSError: it cannot be written, here and in every method.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._records: Any = RecordWriter(str(_free_name(folder)))
        self._write(file_version=VERSION)
        self.flush()

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write a number for each tag."""
        from tensorboardX.proto.summary_pb2 import Summary

        told = [Summary.Value(tag=clean(tag), simple_value=value) for tag, value in values.items()]
        self._write(summary=Summary(value=told), step=step)

    def histogram(self, tag: str, values: NDArray[Any], step: int) -> None:
        """Write how the finite ones of some values are distributed; nothing if there is none."""
        from tensorboardX.proto.summary_pb2 import HistogramProto, Summary

        finite = values[np.isfinite(values)].astype(np.float64, copy=False)
        if not finite.size:
            return
        counts, edges = np.histogram(finite, bins=BINS)
        told = HistogramProto(
            min=float(finite.min()),
            max=float(finite.max()),
            num=finite.size,
            sum=float(finite.sum()),
            sum_squares=float(np.square(finite).sum()),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.tolist(),
        )
        self._write(summary=Summary(value=[Summary.Value(tag=clean(tag), histo=told)]), step=step)

    def image(self, tag: str, png: bytes, size: tuple[int, int, int], step: int) -> None:
        """Write an image in a PNG file, of so many (rows, columns, channels)."""
        from tensorboardX.proto.summary_pb2 import Summary

        height, width, channels = size
        told = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png)
        self._write(summary=Summary(value=[Summary.Value(tag=clean(tag), image=told)]), step=step)

    def graph(self, nodes: Iterable[GraphNode]) -> None:
        """Write the network."""
        from tensorboardX.proto.attr_value_pb2 import AttrValue
        from tensorboardX.proto.graph_pb2 import GraphDef
        from tensorboardX.proto.node_def_pb2 import NodeDef
        from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboardX.proto.versions_pb2 import VersionDef

        made = []
        for node in nodes:
            dimensions = [TensorShapeProto.Dim(size=size) for size in node.shape]
            shapes = AttrValue.ListValue(shape=[TensorShapeProto(dim=dimensions)])
            attributes = {"_output_shapes": AttrValue(list=shapes)}
            made.append(NodeDef(name=node.name, op=node.op, input=node.inputs, attr=attributes))
        graph = GraphDef(node=made, versions=VersionDef(producer=_PRODUCER))
        self._write(graph_def=graph.SerializeToString())

    def restart(self, step: int) -> None:
        """Say that what earlier files have from this step on is to be forgotten."""
        from tensorboardX.proto.event_pb2 import SessionLog

        self._write(session_log=SessionLog(status=SessionLog.START), step=step)

    def flush(self) -> None:
        """Bring what was written to where TensorBoard sees it."""
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _write(self, **what: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **what).SerializeToString())


def clean(tag: str) -> str:
    """Return a tag without the characters that TensorBoard does not take."""
    return _NOT_IN_TAGS.sub("_", tag)


def _free_name(folder: Path) -> Path:
    """Return a name that TensorBoard knows as that of an event file, and that sorts by time."""
    base = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
    number = 0
    while (folder / f"{base}.{number}").exists():
        number += 1
    return folder / f"{base}.{number}"
