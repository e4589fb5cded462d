"""What holds for every network, whatever its sizes and options."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cntk_core.api import CntkError, Parameter
from cntk_core.api.builders import initialize_parameters
from cntk_testing.examples import examples

KINDS = ("SIMPLENET", "SIMPLERNN", "LSTM", "CLASSLM", "LBLM", "NPLM", "CLASSLSTM", "NCELSTM", "CLSTM", "CRF")
CRITERIA = {
    "CLASSLM": "classCrossEntropyWithSoftmax",
    "CLASSLSTM": "classCrossEntropyWithSoftmax",
    "CLSTM": "classCrossEntropyWithSoftmax",
    "NCELSTM": "noiseContrastiveEstimation",
    "CRF": "CRF",
}
FEWEST_WITH_LOOK_UP = {"CLASSLSTM": 2, "NCELSTM": 2, "CLSTM": 2, "LSTM": 2, "LBLM": 1, "CRF": 1}

truth = st.sampled_from(["true", "false"])


@st.composite
def sections(draw: st.DrawFn) -> tuple[str, int, int]:
    """Lines of a section that is right, the size of its input and that of its output."""
    kind = draw(st.sampled_from(KINDS))
    order = draw(st.integers(0, 3))
    if kind in ("CLASSLSTM", "CLSTM"):
        order = max(order, 1)
    if kind == "NCELSTM" or (order and kind in FEWEST_WITH_LOOK_UP):
        fewest = FEWEST_WITH_LOOK_UP[kind] - (kind == "NCELSTM" and not order)
    else:
        fewest = 0
    hidden = draw(st.lists(st.integers(1, 5), min_size=fewest, max_size=4))
    inputs = draw(st.integers(1, 4)) * max(order, 1)
    outputs = draw(st.integers(1, 5))
    recurrent = draw(st.lists(st.integers(1, max(len(hidden), 1)), max_size=len(hidden)))
    criterion = CRITERIA.get(kind, draw(st.sampled_from(["crossEntropyWithSoftmax", "squareError", "logistic"])))
    lines = [
        f"rnnType={kind}",
        f"layerSizes={':'.join(map(str, [inputs, *hidden, outputs]))}",
        f"layerTypes={draw(st.sampled_from(['Sigmoid', 'Tanh:None', 'RectifiedLinear']))}",
        f"trainingCriterion={criterion}",
        f"evalCriterion={criterion}",
        f"lookupTableOrder={order}",
        f"maOrder={draw(st.integers(0, 3))}",
        f"vocabSize={outputs}",
        f"nbrClass={draw(st.integers(1, 3))}",
        f"noise_number={draw(st.integers(1, 3))}",
        *(f"{key}={draw(truth)}" for key in ("applyMeanVarNorm", "needPrior", "addDropoutNodes", "sparseinput")),
        *(f"const{gate}GateValue={draw(truth)}" for gate in ("Forget", "Input", "Output")),
    ]
    if recurrent:
        lines.append(f"recurrentLayer={':'.join(map(str, recurrent))}")
    return "\n".join(lines), inputs, outputs


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(section=sections())
def test_sections_that_are_right_make_networks(section: tuple[str, int, int], build: Any) -> None:
    """All shapes fit, all nodes have their inputs, and there is a first value for every parameter."""
    text, inputs, _ = section
    made = build(text, trace=lambda line: None)
    made.infer()
    assert made["features"].shape == (inputs,)
    assert [len(made.roots[role]) for role in ("label", "criterion", "evaluation", "output")] == [1, 1, 1, 1]
    assert made.roots["criterion"][0].shape == (1,)
    for node in made:
        assert len(node.inputs) >= node.op.arity[0], node.name
        assert all(child.name in made for child in node.inputs), node.name
    initialize_parameters(made)
    assert all(isinstance(node, Parameter) and node.value is not None for node in made.parameters)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    sizes=st.lists(st.integers(-1, 5), max_size=5),
    numbers=st.lists(st.integers(-1, 5), max_size=3),
    order=st.integers(-1, 3),
)
def test_any_section_makes_a_network_or_an_error(
    kind: str, sizes: list[int], numbers: list[int], order: int, build: Any
) -> None:
    criterion = CRITERIA.get(kind, "squareError")
    shown = ":".join(map(str, sizes))
    text = (
        f"rnnType={kind}\nlayerSizes={shown}\nlookupTableOrder={order}\ntrainingCriterion={criterion}\n"
        f"evalCriterion={criterion}\nnbrClass=2\nvocabSize={sizes[-1] if sizes else 0}\nnoise_number=1\n"
    )
    if numbers:
        text += f"recurrentLayer={':'.join(map(str, numbers))}\ndirectConnect={':'.join(map(str, numbers))}"
    try:
        made = build(text, trace=lambda line: None)
    except CntkError as error:
        said = str(error)
    else:
        made.infer()
        return
    assert "r.cntk:" in said
