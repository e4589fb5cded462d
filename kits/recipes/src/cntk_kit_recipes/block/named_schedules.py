"""Rules in place of lists of numbers in the SGD block: ``minibatchSize = [ type = "step" ; start = 32 ]``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import attrs
import numpy as np

from cntk_core.config import Config, Schedule, SourceText, Value, option_key
from cntk_core.contract.schedule import TYPE, EpochSchedule
from cntk_core.errors import CntkError, ConfigError, Problems, raise_problems
from cntk_core.plugins.registry import ComponentTable
from cntk_core.training.settings import SGDSettings

MOST_EPOCHS = 100_000
"""So many epochs are asked for at most; the last value holds on."""


def with_schedules(block: Config, rules: ComponentTable[EpochSchedule]) -> Config:
    """Return an SGD block with the values of its rules written out, one for each epoch.

    Args:
        block: the section; keys that it gets from its parents count, too.
        rules: the rules by name.

    Raises:
        CntkError, Problems: a rule is unknown, its options are wrong, or it gives something that is no number.
    """
    problems: list[CntkError] = []
    for key, whole in _keys():
        value = block.get(key)
        if value is None or not value.is_block:
            continue
        try:
            block = block.with_entries(_entry(key, _written_out(value, rules, _epochs(block), whole=whole), value))
        except Problems as error:
            problems += error.errors
        except CntkError as error:
            problems.append(error)
    raise_problems(problems)
    return block


def _keys() -> Iterator[tuple[str, bool]]:
    """Yield the keys that take a list by epoch, and whether its items are whole numbers."""
    for field in attrs.fields(cast(Any, SGDSettings)):
        if "Schedule[" in str(field.type):
            yield option_key(field), "Schedule[int]" in str(field.type)


def _epochs(block: Config) -> int:
    return min(max(block.integer("maxEpochs"), 1), MOST_EPOCHS)


def _written_out(value: Value, rules: ComponentTable[EpochSchedule], epochs: int, *, whole: bool) -> str:
    config = value.config()
    kind = config.own(TYPE)
    if kind is None:
        raise config.missing(TYPE)
    name = kind.string()
    rule_class = rules.get(name, where=kind.where)
    rule = rule_class(rule_class.configure(config, f"schedule '{name}'"))
    numbers = []
    for epoch in range(epochs):
        try:
            number = rule.value(epoch, epochs)
        except CntkError as error:
            error.where = error.where or value.where
            raise
        if not isinstance(number, int | float | np.number) or not math.isfinite(number):
            raise ConfigError(f"schedule '{name}' gives {number!r} for epoch {epoch + 1}", where=value.where)
        numbers.append(round(float(number)) if whole else float(number))
    return str(Schedule.of(numbers))


def _entry(key: str, text: str, value: Value) -> SourceText:
    """Return ``key = text`` as if it stood where the rule stands, for messages."""
    return SourceText(f"{key}={text}", (0, len(key) + 1), (value.where, value.where))
