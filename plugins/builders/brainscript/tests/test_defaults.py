"""Default values that depend on other parameters of the call."""

from __future__ import annotations

import pytest
from cntk_builder_brainscript.evaluate import Evaluator
from cntk_builder_brainscript.parser import parse

from cntk_core.api import CntkError
from cntk_core.api.builders import SourceText


class NoNodes:
    """A runtime without nodes."""

    kinds = ()

    def definition(self, name):
        return None

    def further_names(self):
        return ()

    def is_node(self, value):
        return False

    def describe(self, value):
        return str(value)


def value_of(text):
    """The value of ``v``."""
    machine = Evaluator(NoNodes())
    return machine.run(lambda: machine.record(parse(SourceText.of(text, "r"))).get("v"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("F (a, b = a + 1) = b ; v = F (2)", 3.0),
        ("F (a, b = a + 1) = b ; v = F (2, b = 7)", 7.0),
        ("F (a, b = a, c = b + a) = c ; v = F (2, b = 5)", 7.0),
        ("F (r, n = r.size) = n ; v = F ([ size = 4 ])", 4.0),
        ("F (a, b = a) = b ; v = F (1) + F (2)", 3.0),
        # where the name means something at the definition, it means that, as in the original
        ("a = 10 ; F (a, b = a) = b ; v = F (2)", 10.0),
        ("G = F >> (x => 2 * x) ; F (a, b = a) = a + b ; v = G (3)", 12.0),
    ],
)
def test_a_default_may_depend_on_parameters(text, value):
    assert value_of(text) == value


def test_a_default_that_needs_itself():
    with pytest.raises(CntkError) as error:
        value_of("F (a, b = c, c = b) = c ; v = F (1)")
    assert "needs its own value" in str(error.value)


def test_the_record_after_new_may_stand_in_parentheses():
    assert value_of("v = new NumericFunction ([ what = 'Length' ; arg = (1 : 2) ])") == 2.0
