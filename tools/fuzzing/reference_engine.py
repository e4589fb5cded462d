"""A plugin file: the engine that the others are compared with, by the name ``reference`` in a recipe."""

from __future__ import annotations

from cntk_testing.reference import ReferenceEngine


class Reference(ReferenceEngine):
    """Computes node by node in double precision."""

    name = "reference"
