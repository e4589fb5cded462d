"""Reading recipes that are BrainScript as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_core.api import BuildContext, CntkError, Location, core_ops
from cntk_core.api.builders import COMMAND_LINE, Document


@pytest.fixture
def said():
    """What recipes print."""
    return []


@pytest.fixture
def context(tmp_path, said):
    table = core_ops()
    return BuildContext(
        find_op=table.find,
        op_names=lambda language: tuple(table.names(language)),
        dtype=np.dtype(np.float32),
        directory=tmp_path,
        trace=said.append,
    )


@pytest.fixture
def read(tmp_path, context):
    """Read a recipe made of a text and of definitions of the command line."""

    def recipe(text, *definitions, folders=(), files=()):
        (tmp_path / "r.bs").write_text(text, encoding="utf-8")
        places = [Location(COMMAND_LINE, number, 1) for number in range(1, 100)]
        named = tuple(zip(("r.bs", *files), places, strict=False))
        given = tuple(zip(definitions, places[10:], strict=False))
        return BrainScriptNetworkBuilder().read_recipe(Document(named, given, tuple(folders)), context)

    return recipe


@pytest.fixture
def build(context):
    """Build the network of a section, with shapes."""

    def network_of(section):
        network = BrainScriptNetworkBuilder().build(section.get("BrainScriptNetworkBuilder"), context)
        network.infer()
        return network

    return network_of


@pytest.fixture
def problem(read, tmp_path):
    """Return the text of the error that reading a recipe, or something with it, gives."""

    def text_of(text, *definitions, then=lambda config: None):
        with pytest.raises(CntkError) as caught:
            then(read(text, *definitions))
        return str(caught.value).replace(f"{tmp_path}/", "")

    return text_of
