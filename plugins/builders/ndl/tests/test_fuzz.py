"""Any text gives a network or one typed error."""

from __future__ import annotations

from cntk_builder_ndl.assemble import Assembler
from cntk_builder_ndl.expand import Expander
from cntk_builder_ndl.functions import function_names
from cntk_builder_ndl.parser import parse
from hypothesis import example, given
from hypothesis import strategies as st

from cntk_core.api import BuildContext, CntkError, Network, core_ops
from cntk_core.api.builders import SourceText
from cntk_testing.examples import examples

TABLE = core_ops()
CONTEXT = BuildContext(find_op=TABLE.find, op_names=lambda language: tuple(TABLE.names(language)))
NAMES = function_names(CONTEXT)
KNOWN = {name.lower() for name in NAMES}

PIECES = [
    "x", "W", "M", "N", "a", "a.b", "M.a", "5", "0", "-1", "2*3", "1e3", "nan", "=", "(", ")", "{", "}", "[", "]", ",",
    ";", ":", "\n", " ", '"', "Input", "Parameter", "Constant", "Times", "Plus", "Sigmoid", "RowSlice", "Reshape",
    "PastValue", "tag", "feature", "init", "uniform", "FeatureNodes", "OutputNodes", "M(a)", "N(a,b)", "x=Input(4)\n",
    "W=Parameter(3,4)\n", "M(a) { s=Sigmoid(a) }\n", "N(a,b)={Plus(a,M(b))}\n", "m=M(x)\n", "$v$", "\u00e9", "\t",
]  # fmt: skip


def build(text: str) -> Network | None:
    statements, problems = parse(SourceText.of(text))
    expander = Expander(lambda name: name.lower() in KNOWN, lambda: NAMES)
    expander.add(statements)
    assembler = Assembler(CONTEXT, 0)
    network = assembler.assemble(expander.script)
    problems += [*expander.problems, *assembler.problems]
    assert all(isinstance(problem, CntkError) and problem.where is not None for problem in problems)
    if problems:
        return None
    try:
        network.infer()
    except CntkError:
        return None
    return network


@examples(300)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("a=a.b\nz=Tanh(a)")
@example("a=b.c\nb=a.c\nz=Tanh(a)")
@example("M(a) { M=M.M }\nz=M(z)\nOutputNodes=(z)")
@example("x=" + "(" * 3000)
@example("x=" + "Plus(" * 3000)
@example("\n".join(f"a{n}=a{n + 1}.b" for n in range(3000)) + "\nz=Tanh(a0)")
@example("\n".join([*(f"M{n}(a)=" + (f"M{n - 1}(a)" if n else "Tanh(a)") for n in range(500)), "z=M499(z)"]))
def test_texts_of_pieces(text: str) -> None:
    build(text)


@examples(200)
@given(st.text())
def test_any_text(text: str) -> None:
    build(text)


@examples(100)
@given(st.integers(0, 200), st.sampled_from(["", "(", ")", "}", '"', ",", "=", "\n"]))
def test_a_good_text_with_one_fault(position: int, fault: str) -> None:
    good = (
        "M(a, b) { t=Times(a, b) ; s=Sigmoid(t) }\nx=Input(4, tag=feature)\nW=Parameter(3, 4, init=gaussian)\n"
        "h=M(W, x)\nz=Plus(h.t, Constant(2))\nOutputNodes=(z, h)\n"
    )
    build(good[:position] + fault + good[position + 1 :])
