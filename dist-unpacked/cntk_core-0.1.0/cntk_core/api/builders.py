"""The kit of authors of network builders: initializers, editing, cloning, names, recipes as text."""

from __future__ import annotations

from cntk_core.config import COMMAND_LINE, Content, EvaluatedEntry, SourceText, parse_text, read_source
from cntk_core.config.parser import Entry, parse_entries
from cntk_core.contract.builder import Document, SeedNumbers
from cntk_core.network.blocks import Block
from cntk_core.network.files import write_file
from cntk_core.network.inference import infer_node
from cntk_core.network.initializers import FixedValue, initialize_parameters, numbered
from cntk_core.network.model_file import network_content, network_of_content
from cntk_core.network.node import BATCH, Placeholder
from cntk_core.network.unsound import unsound
from cntk_core.ops.language.shapes import FREE, Free
from cntk_core.ops.table import OpTable
from cntk_kit_builders.blocks import as_block, call_block, describe_block, find_block, replace_block
from cntk_kit_builders.carry import carry_blocks, copy_blocks
from cntk_kit_builders.clone import PARAMETER_USES, clone, clone_nodes, duplicate, nodes_to_clone
from cntk_kit_builders.collapse import collapse, find, outline
from cntk_kit_builders.derivatives.differentiate import add_derivatives, differentiate
from cntk_kit_builders.derivatives.registry import derivative_rule
from cntk_kit_builders.derivatives.writing import DerivativeWriter, NotDifferentiable
from cntk_kit_builders.dot import to_dot
from cntk_kit_builders.draw import to_svg
from cntk_kit_builders.dump import dump, write_dump
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
from cntk_kit_builders.first_values.initializers import FromFile, FromLiteral, Random, cntk_initializer, initializer
from cntk_kit_builders.first_values.random_numbers import RandomStream
from cntk_kit_builders.first_values.weights_file import (
    WeightsFile,
    is_weights_file,
    npz_chunks,
    open_weights,
)
from cntk_kit_builders.patterns import NamePattern, find_nodes, paired_names
from cntk_kit_builders.single_steps import makes_single_steps
from cntk_kit_builders.svd import Reduction, reduce_network
from cntk_kit_builders.text_file import write_text
from cntk_kit_builders.user_function import UserFunction, op_of

KIT_VERSION = "1.0"
"""Version of this kit. Names may change with its major; what goes is announced for two minor versions."""

__all__ = [
    "BATCH",
    "COMMAND_LINE",
    "FREE",
    "KIT_VERSION",
    "PARAMETER_USES",
    "Block",
    "Content",
    "DerivativeWriter",
    "Document",
    "Entry",
    "EvaluatedEntry",
    "FixedValue",
    "Free",
    "FromFile",
    "FromLiteral",
    "NamePattern",
    "NotDifferentiable",
    "OpTable",
    "Placeholder",
    "Random",
    "RandomStream",
    "Reduction",
    "SeedNumbers",
    "SourceText",
    "UserFunction",
    "WeightsFile",
    "add_derivatives",
    "as_block",
    "call_block",
    "carry_blocks",
    "check_links",
    "clone",
    "clone_nodes",
    "cntk_initializer",
    "collapse",
    "complete_network",
    "copy_blocks",
    "copy_inputs",
    "copy_nodes",
    "copy_sub_tree",
    "derivative_rule",
    "describe_block",
    "differentiate",
    "dump",
    "duplicate",
    "find",
    "find_block",
    "find_nodes",
    "freeze_statistics",
    "infer_node",
    "initialize_parameters",
    "initializer",
    "is_weights_file",
    "makes_single_steps",
    "network_content",
    "network_of_content",
    "nodes_to_clone",
    "npz_chunks",
    "numbered",
    "op_of",
    "open_weights",
    "outline",
    "paired_names",
    "parse_entries",
    "parse_text",
    "read_source",
    "reduce_network",
    "remove_nodes",
    "rename_nodes",
    "replace_block",
    "replace_node",
    "revise_parameter",
    "set_input",
    "set_inputs",
    "set_learning_rate",
    "set_needs_gradient",
    "set_role",
    "sub_tree",
    "to_dot",
    "to_svg",
    "unsound",
    "users_of",
    "write_dump",
    "write_file",
    "write_text",
]
