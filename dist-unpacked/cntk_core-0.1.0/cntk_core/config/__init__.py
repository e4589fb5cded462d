"""The configuration language of recipes: files, overrides, sections, variables, typed look-up, options.

``load_recipe`` reads what a command line names; the result is a :class:`Config`, the top-level section, from which
builders, readers and learners take their values. ``docs/config-language.md`` describes the language.
"""

from __future__ import annotations

from cntk_core.config.evaluated import Content, EvaluatedEntry
from cntk_core.config.recipe import (
    Argument,
    CommandLine,
    load_recipe,
    parse_text,
    read_source,
    split_command_line,
)
from cntk_core.config.schedule import Schedule
from cntk_core.config.schema import at_least, bind, option, option_key, option_keys, options, unknown_keys
from cntk_core.config.section import MISSING, Config
from cntk_core.config.source import COMMAND_LINE, SourceText
from cntk_core.config.unread import UnreadKeys
from cntk_core.config.values import Value

__all__ = [
    "COMMAND_LINE",
    "MISSING",
    "Argument",
    "CommandLine",
    "Config",
    "Content",
    "EvaluatedEntry",
    "Schedule",
    "SourceText",
    "UnreadKeys",
    "Value",
    "at_least",
    "bind",
    "load_recipe",
    "option",
    "option_key",
    "option_keys",
    "options",
    "parse_text",
    "read_source",
    "split_command_line",
    "unknown_keys",
]
