"""Building networks from texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cntk_builder_ndl import NDLNetworkBuilder

from cntk_core.api import BuildContext, CntkError, Network, core_ops
from cntk_core.api.builders import parse_text

Build = Callable[..., Network]


def build_recipe(recipe: str, **context: Any) -> Network:
    """Build the NDLNetworkBuilder block of a recipe."""
    table = core_ops()
    block = parse_text(recipe, file="r.cntk").own("NDLNetworkBuilder")
    assert block is not None
    context = {"find_op": table.find, "op_names": lambda language: tuple(table.names(language)), **context}
    made = BuildContext(**context)
    return NDLNetworkBuilder().build(block, made)


def build_net(text: str, **context: Any) -> Network:
    """Build a network from the lines of its section; the first is line 2 of r.cntk."""
    return build_recipe(f"NDLNetworkBuilder=[ run=net ; net=[\n{text}\n]]", **context)


@pytest.fixture
def recipe() -> Build:
    return build_recipe


@pytest.fixture
def net() -> Build:
    """A function that builds a network from lines; ``FeatureNodes`` is added if there is no feature."""

    def build(text: str, **context: Any) -> Network:
        if "eature" not in text:
            text += "\nx=Input(4, tag=feature)"
        return build_net(text, **context)

    return build


@pytest.fixture
def message() -> Callable[..., str]:
    """A function that returns the text of the error that building a network from lines raises."""

    def error_of(text: str, **context: Any) -> str:
        with pytest.raises(CntkError) as error:
            build_net(text, **context)
        return str(error.value)

    return error_of


@pytest.fixture
def shipped(tmp_path: Path) -> Callable[[str, str], Path]:
    """A function that writes a file and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
