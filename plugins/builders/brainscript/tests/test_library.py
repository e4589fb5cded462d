"""Every definition of the core library builds: the examples of the table give the shapes and values that it says."""

from __future__ import annotations

import re

import pytest
from cntk_builder_brainscript.builder import evaluate_network
from cntk_builder_brainscript.library_table import definitions
from cntk_builder_brainscript.parser import parse_expression

from cntk_core.api import BuildContext, CntkError, Location, core_ops, show, to_cntk
from cntk_core.api.builders import SourceText

WHERE = Location("net.bs", 1, 1)

INPUTS = """
x = Input {4}
y = Input {3, tag = 'label'}
g = Input {1}
w = SparseInput {5}
h = Input {5}
p = Input {(6 : 6 : 2)}
p3 = Input {(4 : 3)}
"""

MODEL = """{
inputSequence = Input {4}
labelSequence = Input {3, tag = 'label'}
labelSentenceStartEmbeddedScattered = BS.Loop.IsFirst (labelSequence)
decoderHistoryHook = Pass (labelSequence)
beamSearchReorderHook = Pass (BS.Constants.OnesTensor (1 : 1))
encoded = BS.Sequences.BroadcastSequenceAs (labelSequence, BS.Sequences.Last (inputSequence))
history = BS.Loop.Previous (decoderHistoryHook)
operand = ParameterTensor {(6 : 3)} * history + ParameterTensor {(6 : 4)} * encoded + ParameterTensor {(6 : 1)}
state = Tanh (operand + before)
before = BS.Loop.Previous (state * beamSearchReorderHook)
z = LinearLayer {3, inputRank = 1} (state)
decoderHistoryFromOutput = Hardmax (z)
}"""


def network_of(text):
    """The network of an expression, with all shapes."""
    table = core_ops()
    context = BuildContext(
        find_op=table.find,
        op_names=lambda language: tuple(table.names(language)),
        load_model=lambda path, where: network_of(MODEL),
        trace=lambda line: None,
    )
    network = evaluate_network(parse_expression(SourceText.of(text, "net.bs")), context, WHERE)
    network.infer()
    return network


def check(example, result):
    """Compare what an example gives with what the table says."""
    if result.startswith("nodes "):
        network = network_of(example.removeprefix("network "))
        assert all(name in network for name in result.removeprefix("nodes ").split(", "))
    elif re.fullmatch(r"\[[\d x]+\]", result):
        network = network_of("{" + INPUTS + example + "\n}")
        assert f"[{show(network['z'].shape)}]".replace("[[", "[").replace("]]", "]") == result
    elif result.startswith("fails: "):
        with pytest.raises(CntkError) as error:
            network_of("{" + INPUTS + example + "\n}")
        assert result.removeprefix("fails: ") in str(error.value)
    else:
        wanted = f"{example}\nwanted = {result}\nok = Same (v, wanted)\n{SAME}"
        assert network_of("{" + INPUTS + wanted + "\nz = if ok then x else Fail ('another value')\n}")["z"].shape


SAME = """
Same (a, b) = if IsArray (b) then IsArray (a) && Length (a) == Length (b) && AllSame (a, b, Length (b)) else a == b
AllSame (a, b, n) = n == 0 || (AllSame (a, b, n - 1) && a[n-1] == b[n-1])
"""


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)
def test_an_example_builds(definition):
    check(definition.example, definition.result)


def test_the_table_can_tell_a_wrong_shape():
    with pytest.raises(AssertionError):
        check("z = Abs (x)", "[5]")


def test_the_table_can_tell_a_wrong_value():
    with pytest.raises(CntkError) as error:
        check("v = 1 + 1", "3")
    assert "another value" in str(error.value)


def test_shapes_are_shown_as_in_the_table():
    assert to_cntk((2, 6, 6)) == (6, 6, 2)
