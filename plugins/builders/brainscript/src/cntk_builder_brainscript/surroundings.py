"""What is around a recipe's or a network's text: the library, and what the original told it about the run."""

from __future__ import annotations

from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.texts import library
from cntk_builder_brainscript.values import Record
from cntk_core.api import BuildContext


def surroundings(evaluator: Evaluator, context: BuildContext) -> Record:
    """Return the record in which descriptions stand."""
    scope = evaluator.record(library())
    scope.members |= {
        "deviceId": -1.0,
        "traceLevel": 0.0,
        "precision": "double" if context.dtype.itemsize == 8 else "float",
    }
    return scope
