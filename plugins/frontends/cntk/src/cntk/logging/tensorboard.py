"""Event files of TensorBoard, as the hook of the project writes them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

_BRIGHTEST = 255


class EventFile:
    """An event file in a folder.

    Args:
        folder: where it lies; made if it is not there.
        model: a Function whose graph is written; None is none.

    Raises:
        ImportError: the package ``cntk-hook-tensorboard`` is not there.
        OSError: it cannot be written, here and in every method.
    """

    def __init__(self, folder: str, model: Any = None) -> None:
        try:
            from cntk_hook_tensorboard.event_file import EventFile as Made
        except ImportError as error:
            raise ImportError(
                "TensorBoardProgressWriter needs cntk-hook-tensorboard: pip install cntk-compat[tensorboard]"
            ) from error
        self._file = Made(Path(folder))
        if model is not None:
            self._file.graph(_nodes(model))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Write a number."""
        self._file.scalars({name: value}, step)
        self._file.flush()

    def add_images(self, name: str, images: Any, step: int) -> None:
        """Write images ``(images, channels, height, width)`` of values from 0 to 255."""
        from PIL import Image

        for number, image in enumerate(np.asarray(images)):
            pixels = np.clip(np.moveaxis(image, 0, -1), 0, _BRIGHTEST).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
            self._file.image(f"{name}/image/{number}", file.getvalue(), pixels.shape, step)

    def flush(self) -> None:
        """Write out what is written."""
        self._file.flush()

    def close(self) -> None:
        """Write out everything and close the file."""
        self._file.close()


def _nodes(model: Any) -> list[Any]:
    """Return the graph of a Function as TensorBoard knows it."""
    from cntk_hook_tensorboard.graph import GraphNode

    from cntk.logging.graph import depth_first_search

    nodes = []
    for item in depth_first_search(model, lambda item: True, -1):
        is_function = hasattr(item, "root_function")
        inputs = [each.owner.uid if each.is_output else each.uid for each in (item.inputs if is_function else ())]
        shape = tuple(reversed(item.output.shape if is_function and len(item.outputs) == 1 else ()))
        nodes.append(GraphNode(item.uid, item.op_name if is_function else "Variable", tuple(inputs), shape))
    return nodes
