"""Expression trees as text."""

from __future__ import annotations

import numpy as np

from cntk_core.api.engines import Dialect, TraceMath, TreeWriter, equal_names, math_of, rename_symbols, symbol
from cntk_kit_engines.traced_rule import TracedRule
from cntk_testing.engine_contract import ADAPTIVE, NORMALIZED

PYTHON = Dialect(number=repr, condition="({0}) * 1.0", call="m.{operation}({arguments})", forms={"abs": "abs({0})"})
C = Dialect(number="{}f".format, condition="({0} ? 1.f : 0.f)", forms={"where": "({0} ? {1} : {2})"})


def test_a_tree_as_one_expression() -> None:
    m, x, y = TraceMath(), symbol("x"), symbol("y")
    tree = m.where(m.less(x, 2.0), -(x + y) / 3.0, m.exp(m.maximum(x * y, 0.5)))
    assert C.nested(tree, str.upper) == "((X < 2.0f ? 1.f : 0.f) ? ((-(X + Y)) / 3.0f) : exp(maximum((X * Y), 0.5f)))"
    assert C.nested(4.0, str) == "4.0f"


def test_statements_compute_the_same_once() -> None:
    m, x = TraceMath(), symbol("x")
    twice = m.tanh(x) * m.tanh(x)
    writer = TreeWriter(PYTHON, "{name} = {text}")
    assert [*writer.define(twice), *writer.define(m.tanh(x)), *writer.define(2.0)] == [
        "t1 = m.tanh(x)",
        "t2 = (t1 * t1)",
    ]
    assert (writer.atom(twice), writer.atom(m.tanh(x)), writer.atom(2.0)) == ("t2", "t1", "2.0")


def test_statements_compute_what_the_tree_is() -> None:
    rng = np.random.default_rng(3)
    for rule in (ADAPTIVE, NORMALIZED):
        traced = TracedRule.of(rule)
        assert set(traced.buffers().values()) == {"values", "gradients", "squares"}
        given = {name: rng.normal(size=5) ** 2 for name in traced.buffers()}
        numbers = dict.fromkeys((*rule.scalars, *rule.means), 0.5)
        slots = {slot.name: given[TracedRule.slot_name(slot.name)] for slot in rule.slots}
        value, new = rule.expression(math_of(np), given["value"], given["gradient"], slots, numbers)
        expected = {"value": value, **{TracedRule.slot_name(name): array for name, array in new.items()}}
        for name, tree in traced.results().items():
            writer = TreeWriter(PYTHON, "{name} = {text}")
            room = {"m": math_of(np), **given, **numbers}
            exec("\n".join([*writer.define(tree), f"found = {writer.atom(tree)}"]), room)
            np.testing.assert_array_equal(room["found"], expected[name])


def test_equal_kernels_have_equal_names() -> None:
    trees = [symbol("v7") * symbol("v3") + symbol("numbers"), 2.0, symbol("v9") - symbol("v7")]
    names = equal_names(trees, {"v3", "v7", "v9", "v11"})
    assert names == {"v7": "a0", "v3": "a1", "v9": "a2"}
    assert rename_symbols(trees[2], names) == symbol("a2") - symbol("a0")
