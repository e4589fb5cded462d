"""The contract of ops, for every op of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cntk_core.ops.language.op import Op
from cntk_core.ops.table import core_ops
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import CHECKS, check_differences
from cntk_testing.op_examples import EXAMPLES, MOVES, NOT_COMPUTED

TABLE = core_ops()
COMPUTED = [op for op in TABLE if op.computable and op.name not in NOT_COMPUTED | MOVES]


def test_every_op_of_the_table_has_an_example_and_no_other():
    assert set(EXAMPLES) | NOT_COMPUTED | MOVES == {op.name for op in TABLE if op.computable}


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
def test_values_and_gradients_agree(op: Op):
    check_differences(op, EXAMPLES[op.name])


@pytest.mark.parametrize("check", [one for one in CHECKS if one is not check_differences], ids=lambda one: one.__name__)
@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
@pytest.mark.sampled(3)
def test_contract(op: Op, check: Callable[[Op, Sequence[OpExample]], None]):
    check(op, EXAMPLES[op.name])


@pytest.mark.parametrize("op", list(TABLE), ids=lambda op: op.name)
def test_every_op_is_documented(op: Op):
    assert op.doc.endswith(".")
    assert op.doc[0] == op.doc[0].upper() or op.doc.startswith(("x ", "(", "max", "a ", "log", "-", "1"))
