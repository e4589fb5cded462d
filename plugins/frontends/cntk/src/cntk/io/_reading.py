"""From the block of a recipe to a reader of the project."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk._graph.errors import told
from cntk._plugins import registry
from cntk.io._deserializers import block_text
from cntk_core.api import Config, Location, ReaderContext
from cntk_core.api.builders import parse_text
from cntk_core.api.readers import ChunkedReader


def open_reader(block: dict[str, Any]) -> ChunkedReader:
    """Open the reader of a block.

    Raises:
        GraphError: the block is wrong, a file is missing.
    """
    with told():
        found = parse_text(f"reader={block_text(block)}", file="the deserializers").section("reader")
        readers = registry().readers
        kind = readers.get("Composite").composed(readers.get, _name)
        what = "the minibatch source"
        context = ReaderContext(dtype=np.dtype(np.float32), general=kind.general_from(found, what))
        reader = kind(kind.settings_from(found, what), context)
    assert isinstance(reader, ChunkedReader)
    return reader


def _name(block: Config) -> tuple[str, Location]:
    value = block.require("type")
    return value.string(), value.where
