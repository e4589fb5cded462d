"""Event files of TensorBoard, written by the package ``tensorboard``."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np


class EventFile:
    """An event file in a folder.

    Args:
        folder: where it lies; made if it is not there.
        model: a Function whose graph is written; None is none.

    Raises:
        ImportError: the package ``tensorboard`` is not there.
    """

    def __init__(self, folder: str, model: Any = None) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoardProgressWriter needs the package tensorboard: pip install tensorboard"
            ) from error
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(folder)
        if model is not None:
            self._writer.add_event(Event(wall_time=time.time(), graph_def=graph_of(model)))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Write a number."""
        self._add(self._summary(value=[self._summary.Value(tag=name, simple_value=value)]), step)

    def add_images(self, name: str, images: Any, step: int) -> None:
        """Write images ``(images, channels, height, width)`` of values from 0 to 255."""
        from PIL import Image

        for number, image in enumerate(np.asarray(images)):
            pixels = np.clip(np.moveaxis(image, 0, -1), 0, 255).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
            height, width, channels = pixels.shape
            shown = self._summary.Image(
                height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
            )
            self._add(self._summary(value=[self._summary.Value(tag=f"{name}/image/{number}", image=shown)]), step)

    def _add(self, summary: Any, step: int) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """Write out what is written."""
        self._writer.flush()

    def close(self) -> None:
        """Write out everything and close the file."""
        self._writer.close()


def graph_of(model: Any) -> bytes:
    """Return the graph of a Function as TensorBoard reads it."""
    from cntk.logging.graph import depth_first_search
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

    graph = GraphDef()
    for item in depth_first_search(model, lambda item: True, -1):
        inputs = getattr(item, "inputs", ())
        kind = getattr(item, "op_name", None) or type(item).__name__
        owners = [each.owner.uid if each.is_output else each.uid for each in inputs]
        graph.node.append(NodeDef(name=item.uid, op=kind, input=owners))
    return bytes(graph.SerializeToString())
