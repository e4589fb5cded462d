"""Names of the nodes that library definitions make.

Saved models and editing scripts refer to these names, so they are part of the interface. The file ``node_names.txt``
has, after each example in a line that begins with ``> ``, the names of all nodes but the inputs. For other networks,
some of hundreds of nodes, names and dimensions were compared with those in logs of CNTK 2.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_builder_brainscript.builder import evaluate_network
from cntk_builder_brainscript.parser import parse_expression

from cntk_core.api import BuildContext, Input, Location, core_ops
from cntk_core.api.builders import SourceText

INPUTS = "x = Input {4} ; y = Input {3} ; p = Input {(6 : 6 : 2)}\n"
FILE = Path(__file__).with_name("node_names.txt")


def names_of(example):
    table = core_ops()
    context = BuildContext(find_op=table.find, op_names=lambda language: tuple(table.names(language)))
    source = SourceText.of("{" + INPUTS + example + "\n}", "net.bs")
    network = evaluate_network(parse_expression(source), context, Location("net.bs", 1, 1))
    return sorted(node.name for node in network if not isinstance(node, Input))


def read_file():
    blocks = FILE.read_text(encoding="utf-8").strip().split("> ")[1:]
    return [(example, names.split()) for example, _, names in (block.partition("\n") for block in blocks)]


@pytest.mark.parametrize(("example", "names"), read_file(), ids=[example for example, _ in read_file()])
def test_nodes_have_the_names_that_models_know(example, names):
    assert names_of(example) == names
