"""SetProperty and SetPropertyForSubTree: the properties by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from cntk_builder_ndl.mel.commands import is_short_for
from cntk_builder_ndl.mel.syntax import Argument
from cntk_core.api import BuildError, Network, Node, did_you_mean
from cntk_core.api.builders import freeze_statistics, set_learning_rate, set_needs_gradient, set_role

_FLAGS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PROPERTIES = (
    ("criterion", ("criterion", "finalCriterion", "Criteria")),
    ("evaluation", ("eval", "evaluation")),
    ("needGradient", ("needGradient", "needsGradient", "computeGradient")),
    ("feature", ("feature",)),
    ("label", ("label",)),
    ("learningRateMultiplier", ("learningRateMultiplier",)),
    ("output", ("output",)),
    ("recurrent", ("recurrent",)),
    ("multiSeq", ("multiSeq",)),
    ("freezeParameters", ("freezeParameters",)),
)
_NAMES = tuple(name for _, names in _PROPERTIES for name in names)
_ROLES = ("feature", "label", "criterion", "evaluation", "output")
_WITHOUT_EFFECT = ("recurrent", "multiSeq")
_BELOW = ("needGradient", "learningRateMultiplier", "freezeParameters")

Trace = Callable[[str], None]


def set_property(network: Network, nodes: Sequence[Node], name: Argument, value: Argument, trace: Trace) -> None:
    """Set a property of nodes.

    Raises:
        BuildError, NetworkError: there is no such property, or the value or a node does not go with it.
    """
    found = _find(name, _NAMES)
    if found in _ROLES:
        set_role(network, nodes, found, _flag(value, found))
    elif found in _WITHOUT_EFFECT:
        trace(f"WARNING: {name.where}: the property {found} has no effect")
    else:
        _set(nodes, found, value, trace)


def set_property_below(nodes: Sequence[Node], name: Argument, value: Argument, trace: Trace) -> None:
    """Set a property of those nodes of a sub-tree that can have it.

    Raises:
        BuildError, NetworkError: there is no such property for sub-trees, the value is wrong, or no node can have it.
    """
    known = tuple(name for key, names in _PROPERTIES if key in _BELOW for name in names)
    found = _find(name, known)
    if found == "freezeParameters":
        nodes = [node for node in nodes if node.op.updates]
        if not nodes:
            raise BuildError("there is no BatchNormalization in the sub-tree that could be frozen", where=name.where)
    _set(nodes, found, value, trace)


def _set(nodes: Iterable[Node], name: str, value: Argument, trace: Trace) -> None:
    if name == "learningRateMultiplier":
        set_learning_rate(nodes, _number(value, name))
    elif name == "needGradient":
        set_needs_gradient(nodes, _flag(value, name))
    elif _flag(value, name):
        freeze_statistics(nodes)
    else:
        trace(f"WARNING: {value.where}: what is frozen cannot be thawed; freezeParameters=false has no effect")


def _find(name: Argument, known: Sequence[str]) -> str:
    for test in (str.__eq__, is_short_for):
        for key, names in _PROPERTIES:
            if any(word in known and test(name.text.lower(), word.lower()) for word in names):
                return key
    raise BuildError(
        f"there is no property '{name.text}'{did_you_mean(name.text, known)}",
        where=name.where,
        hint=f"Properties: {', '.join(known)}",
    )


def _flag(value: Argument, name: str) -> bool:
    found = _FLAGS.get(value.text.lower())
    if found is None:
        raise BuildError(f"{name} must be true or false, not '{value.text}'", where=value.where)
    return found


def _number(value: Argument, name: str) -> float:
    if not _NUMBER.fullmatch(value.text):
        raise BuildError(f"{name} must be a number, not '{value.text}'", where=value.where)
    return float(value.text)
