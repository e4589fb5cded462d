"""The kit of authors of network builders: initializers, editing, cloning, names, recipes as text."""

from __future__ import annotations

from cntk_core.config import COMMAND_LINE, Content, EvaluatedEntry, SourceText, parse_text, read_source
from cntk_core.contract.builder import Document, SeedNumbers
from cntk_core.network.initializers import (
    FixedValue,
    FromFile,
    FromLiteral,
    Random,
    initialize_parameters,
    initializer,
    numbered,
)
from cntk_core.ops.table import OpTable
from cntk_kit_builders.clone import PARAMETER_USES, clone_nodes, duplicate, nodes_to_clone
from cntk_kit_builders.dump import write_dump
from cntk_kit_builders.edit import (
    check_links,
    complete_network,
    copy_inputs,
    copy_nodes,
    copy_sub_tree,
    freeze_statistics,
    remove_nodes,
    rename_nodes,
    replace_node,
    revise_parameter,
    set_input,
    set_inputs,
    set_learning_rate,
    set_needs_gradient,
    set_role,
    sub_tree,
    users_of,
)
from cntk_kit_builders.patterns import NamePattern, find_nodes, paired_names

KIT_VERSION = "1.0"
"""Version of this kit. Names may change with its major; what goes is announced for two minor versions."""

__all__ = [
    "COMMAND_LINE",
    "KIT_VERSION",
    "PARAMETER_USES",
    "Content",
    "Document",
    "EvaluatedEntry",
    "FixedValue",
    "FromFile",
    "FromLiteral",
    "NamePattern",
    "OpTable",
    "Random",
    "SeedNumbers",
    "SourceText",
    "check_links",
    "clone_nodes",
    "complete_network",
    "copy_inputs",
    "copy_nodes",
    "copy_sub_tree",
    "duplicate",
    "find_nodes",
    "freeze_statistics",
    "initialize_parameters",
    "initializer",
    "nodes_to_clone",
    "numbered",
    "paired_names",
    "parse_text",
    "read_source",
    "remove_nodes",
    "rename_nodes",
    "replace_node",
    "revise_parameter",
    "set_input",
    "set_inputs",
    "set_learning_rate",
    "set_needs_gradient",
    "set_role",
    "sub_tree",
    "users_of",
    "write_dump",
]
