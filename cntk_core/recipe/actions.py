"""The actions by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from cntk_core.config import Config, Value
from cntk_core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from cntk_core.recipe.context import ActionContext

_MODULES = {
    "train": "train",
    "trainRNN": "train",
    "test": "test",
    "eval": "test",
    "cv": "cv",
    "write": "write",
    "dumpNodes": "dump_nodes",
    "dumpNode": "dump_nodes",
    "dumpnode": "dump_nodes",
    "edit": "edit",
    "adapt": "adapt",
    "bnstat": "bnstat",
    "createLabelMap": "label_map",
    "plot": "plot",
    "SVD": "svd",
    "writeWordAndClass": "word_class",
    "devtest": "devtest",
    "convertdbn": "convert_dbn",
    "exportdbn": "export_dbn",
    "PrintAction": "print_action",
    "FailAction": "fail_action",
}

NAMES = tuple(_MODULES)
"""Actions that can be run, with their other names."""


class Action(Protocol):
    """What the module of an action offers."""

    check: Callable[[ActionContext, Config], None]
    """Raise what is wrong with a section before anything runs."""
    run: Callable[[ActionContext, Config], None]
    """Do the work."""


def find(action: Value, command: str) -> Action:
    """Return the module of an action that a command section names.

    Raises:
        ConfigError: there is no such action.
    """
    name = action.string()
    module = _MODULES.get(name)
    if module is None:
        raise ConfigError(
            f"unknown action: {name}  in command set: {command}{did_you_mean(name, NAMES)}",
            where=action.where,
            hint=f"Actions: {', '.join(NAMES)}",
        )
    room = "recipe" if module in ("train", "test", "write") else "actions"
    return cast(Action, import_module(f"cntk_core.{room}.{module}"))


def same_action(name: str) -> tuple[str, ...]:
    """Return all names of an action: ``train`` and ``trainRNN``."""
    return tuple(other for other, module in _MODULES.items() if module == _MODULES[name])


def tells_listeners(name: str) -> bool:
    """Whether an action tells the listeners of itself, with its network: those that train."""
    return name in (*same_action("train"), *same_action("adapt"))
