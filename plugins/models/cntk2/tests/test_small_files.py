"""What becomes of functions, loops, blocks and names of a file, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.values import Array, Axis, NDShape, SizeT
from drafts import BATCH, STEPS, Draft, lines

from cntk_core.api import ModelFormatError

ROLES = ("output", "criterion", "evaluation")


def refused(draft: Draft, folder: Path, root: str = "") -> str:
    with pytest.raises(ModelFormatError) as caught:
        draft.load(folder, root)
    return str(caught.value).removeprefix(f"'{folder / 'x.model'}' is damaged: ").replace(str(folder / "x.model"), "x")


# -- what roots are -----------------------------------------------------------------------------------------


def losses(draft: Draft, *called: tuple[str, str, str]) -> list[str]:
    draft.input("x", 3)
    draft.input("y", 3)
    return [draft.function(operation, uid, "x", "y", name=name) for operation, uid, name in called]


@pytest.mark.parametrize(
    ("called", "beside", "roles"),
    [
        ([("SquaredError", "a", "")], False, ["output"]),
        ([("SquaredError", "a", "aggregateLoss")], False, ["criterion"]),
        ([("SquaredError", "a", "aggregateEvalMetric")], False, ["evaluation"]),
        ([("SquaredError", "a", ""), ("ClassificationError", "b", "")], False, ["output", "output"]),
        ([("SquaredError", "a", "")], True, ["criterion", "output"]),
        ([("ClassificationError", "a", "")], True, ["evaluation", "output"]),
        ([("SquaredError", "a", "aggregateEvalMetric")], True, ["evaluation", "output"]),
        ([("Plus", "a", "aggregateLoss")], True, ["criterion", "output"]),
        ([("Plus", "a", "")], True, ["output", "output"]),
    ],
)
def test_losses_are_criteria_beside_outputs(
    called: list[tuple[str, str, str]], beside: bool, roles: list[str], tmp_path: Path
) -> None:
    """A Trainer of the original names what it adds up."""
    draft = Draft()
    outputs = losses(draft, *called)
    if beside:
        outputs.append(draft.function("Tanh", "z", "x"))
    draft.function("Combine", "all", *outputs)
    network = draft.load(tmp_path).network
    found = {node: role for role in ROLES for node in network.roots[role]}
    names = [name or uid for _, uid, name in called] + ["z"] * beside
    assert [found[network[name]] for name in names] == roles


def test_outputs_that_are_leaves_or_come_twice(tmp_path: Path) -> None:
    draft = Draft()
    x, w = draft.input("x", 2), draft.parameter("W", 2)
    draft.function("Combine", "all", x, w, draft.function("Plus", "sum", x, w, name="Sum"))
    model = draft.load(tmp_path)
    assert lines(model.network) == ["Sum = Plus(x, W) [2]", "x.output = Pass(x) [2]", "W.output = Pass(W) [2]"]
    assert [(one.name, one.uid, one.axes) for one in model.results] == [
        ("x", "x", "sequence"),
        ("W", "W", "none"),
        ("Sum", "sum_Output_0", "sequence"),
    ]


# -- axes and numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("called", "attributes", "axes", "shape"),
    [
        ("Tanh", {}, "sequence", (2, 3)),
        ("ReduceElements", {"axis": STEPS}, "batch", (2, 3)),
        ("ReduceElements", {"axis": BATCH}, "none", (2, 3)),
        ("ReduceElements", {"axis": Axis(0, "", True)}, "sequence", (2, 1)),
        ("ReduceElements", {"axis": Axis(-1, "", True), "reductionKeepDimensions": False}, "sequence", (3,)),
        ("ReduceElements", {"axisVec": [Axis(0, "", True), Axis(1, "", True)]}, "sequence", (1, 1)),
        (
            "ReduceElements",
            {"axisVec": [Axis(0, "", True), Axis(1, "", True)], "reductionKeepDimensions": False},
            "sequence",
            (),
        ),
        ("ReduceElements", {"reductionKeepDimensions": False}, "sequence", ()),
        ("ReduceElements", {"axis": Axis(2**31 - 5, "", False), "reductionKeepDimensions": False}, "none", ()),
        ("SumAll", {}, "none", ()),
        ("UnpackSequence", {"sequenceUnpackSuppressMaskOutput": True}, "batch", "(?, 2, 3)"),
    ],
)
def test_axes_and_shapes_of_results(
    called: str, attributes: dict[str, Any], axes: str, shape: Any, tmp_path: Path
) -> None:
    draft = Draft()
    x = draft.input("x", 3, 2)
    if called == "ReduceElements":
        attributes = {"reductionOpName": "Sum", **attributes}
    draft.function(called, "y", x, **attributes)
    (result,) = draft.load(tmp_path).results
    assert result.axes == axes
    assert str(result.shape) == str(shape)


def test_what_is_computed_of_numbers_is_a_number(tmp_path: Path) -> None:
    """A vector of one element has an axis, and what meets one has it, too."""
    draft = Draft()
    x, one, two = draft.input("x", 3), draft.constant("one", 1.0), draft.constant("two", 2.0, 1)
    total = draft.function("ReduceElements", "s", x, reductionOpName="Sum", reductionKeepDimensions=False)
    a = draft.function("Plus", "a", total, one)
    b = draft.function("Tanh", "b", a)
    c = draft.function("Plus", "c", b, two)
    draft.function("Combine", "all", total, a, b, c)
    assert [one.shape for one in draft.load(tmp_path).results] == [(), (), (), (1,)]


def test_what_has_one_value_for_each_sequence_is_repeated_for_its_steps(tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 3)
    total = draft.function("ReduceElements", "s", x, reductionOpName="Sum", axis=STEPS)
    a = draft.function("Plus", "a", x, total)
    b = draft.function("Minus", "b", total, x)
    draft.function("Combine", "all", a, b)
    model = draft.load(tmp_path)
    assert lines(model.network) == [
        "s = ReduceElements(x) [3]",
        "s.repeated = ReconcileDynamicAxis(s, x) [3]",
        "a = Plus(x, s.repeated) [3]",
        "s.repeated' = ReconcileDynamicAxis(s, x) [3]",
        "b = Minus(s.repeated', x) [3]",
    ]
    assert [one.axes for one in model.results] == ["sequence", "sequence"]


# -- leaves -------------------------------------------------------------------------------------------------


def test_leaves(tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 4, is_sparse=True)
    w = draft.parameter("W", 2, 4, needs_gradient=True)
    frozen = draft.parameter("F", 2, needs_gradient=False)
    c = draft.constant("C", 0.5, 2)
    product = draft.function("Times", "t", w, x, outputRank=SizeT(1))
    draft.function("Plus", "z", draft.function("Plus", "p", product, frozen), c)
    model = draft.load(tmp_path)
    assert [node.sparse for node in model.network.inputs] == [True]
    assert list(model.leaves) == ["W", "F", "C"]
    assert [leaf.learning_rate_multiplier for leaf in model.leaves.values()] == [1.0, 1.0, 0.0]
    assert [leaf.needs_gradient for leaf in model.leaves.values()] == [True, False, True]
    assert model.leaves["W"].known_shape == (4, 2)
    assert [leaf.value.reshape(-1)[0] for leaf in model.leaves.values()] == [1, 1, 0.5]
    assert list(model.parameters) == ["F", "W"]


def test_inputs_without_axes_are_not_sparse(tmp_path: Path) -> None:
    draft = Draft()
    draft.function("Tanh", "y", draft.input("x", 4, axes="none", is_sparse=True))
    (node,) = draft.load(tmp_path).network.inputs
    assert (node.sparse, node.framed) == (False, False)


@pytest.mark.parametrize(("types", "dtype"), [((1, 1), "f4"), ((1, 2), "f8"), ((2, 1), "f8"), ((2, 2), "f8")])
def test_precision_is_the_highest_of_the_leaves(types: tuple[int, int], dtype: str, tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 2, data_type=SizeT(types[0]))
    draft.function("Plus", "y", x, draft.parameter("W", 2, data_type=SizeT(types[1])))
    model = draft.load(tmp_path)
    assert model.network.dtype == dtype
    assert model.leaves["W"].value.dtype == dtype


def test_placeholders_say_nothing_of_the_precision(tmp_path: Path) -> None:
    draft = Draft()
    draft.placeholder("P", 2, data_type=SizeT(2))
    draft.function("Tanh", "y", draft.input("x", 2))
    assert draft.load(tmp_path).network.dtype == "f4"


def test_leaves_that_make_no_sense(tmp_path: Path) -> None:
    draft = Draft()
    draft.function("Tanh", "y", draft.placeholder("P", 2))
    assert refused(draft, tmp_path) == "the variable 'P' stands for nothing"
    draft = Draft()
    w = draft.parameter("W", 2)
    draft.inputs[0]["value"] = Array((1, 2), np.zeros(2, np.float32))
    draft.function("Tanh", "y", w)
    assert refused(draft, tmp_path) == "the variable 'W' has values of another shape"
    draft = Draft()
    draft.function("Tanh", "y", "nobody")
    assert refused(draft, tmp_path) == "there is no variable 'nobody'"
    draft = Draft()
    draft.function("Tanh", "y", draft.function("Tanh", "a", draft.input("x", 2)).replace("_0", "_1"))
    assert refused(draft, tmp_path) == "there is no output 'a_Output_1'"


# -- functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("called", "given", "message"),
    [
        ("Tanh", 0, "has 0 inputs"),
        ("Plus", 1, "has 1 inputs"),
        ("SquaredError", 1, "has 1 inputs"),
        ("Select", 2, "has 2 inputs"),
        ("Clip", 1, "has 1 inputs"),
        ("CrossEntropyWithSoftmax", 1, "has 1 inputs"),
    ],
)
def test_functions_with_too_few_inputs(called: str, given: int, message: str, tmp_path: Path) -> None:
    draft = Draft()
    draft.function(called, "F", *[draft.input(f"x{index}", 2) for index in range(given)])
    assert refused(draft, tmp_path) == f"the function 'F' {message}"


def test_unpacked_sequences_with_their_mask(tmp_path: Path) -> None:
    draft = Draft()
    draft.function("UnpackSequence", "y", draft.input("x", 3), sequenceUnpackPaddingValue=0.5)
    results = draft.load(tmp_path).results
    assert [(one.uid, one.axes, str(one.shape)) for one in results] == [
        ("y_Output_0", "batch", "(?, 3)"),
        ("y_Output_1", "batch", "(?,)"),
    ]


@pytest.mark.parametrize("inputs", [("x",), ("x", "one", "one")])
def test_delays_read_a_value_and_a_first_state(inputs: tuple[str, ...], tmp_path: Path) -> None:
    draft = Draft()
    draft.input("x", 2)
    draft.constant("one", 1.0)
    draft.function("PastValue", "P", *inputs, offset=SizeT(1))
    assert refused(draft, tmp_path) == f"the function 'P' has {len(inputs)} inputs"


@pytest.mark.parametrize(
    ("state", "inputs", "number"),
    [("zero", ["x"], 0.0), ("half", ["x"], 0.5), ("vector", ["x", "vector"], 0.1), ("W", ["x", "W"], 0.1)],
)
def test_first_states_of_delays(state: str, inputs: list[str], number: float, tmp_path: Path) -> None:
    """A constant number is a setting; what is learned, or is several numbers, is read."""
    draft = Draft()
    draft.input("x", 2)
    draft.constant("zero", 0.0)
    draft.constant("half", 0.5, 1)
    draft.constant("vector", 0.5, 2)
    draft.parameter("W", 1)
    draft.function("PastValue", "P", "x", state, offset=SizeT(2))
    node = draft.load(tmp_path).network["P"]
    assert [child.name for child in node.inputs] == inputs
    assert node.attributes.default_hidden_activation == number
    assert node.attributes.time_step == 2
    assert node.attributes.dims == (2,)


# -- loops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [None, (2,), (-1,), (-2,)])
def test_a_loop_whose_value_is_sliced(dims: tuple[int, ...] | None, tmp_path: Path) -> None:
    """The shape of a value in a loop is found out when something needs it, whether the file says it or not."""
    draft = Draft()
    x = draft.input("x", 2)
    if dims is not None:
        draft.placeholder("sum_Output_0", *dims)
    past = draft.function("PastValue", "past", "sum_Output_0", draft.constant("zero", 0.0), offset=SizeT(1))
    total = draft.function("Plus", "sum", x, past)
    draft.function("Slice", "last", total, axis=Axis(-1, "", True), beginIndex=1, endIndex=2)
    assert lines(draft.load(tmp_path).network) == [
        "past = PastValue(sum) [2]",
        "sum = Plus(x, past) [2]",
        "last = Slice(sum) [1]",
    ]


def test_a_loop_without_a_delay(tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 2)
    a = draft.function("Plus", "a", x, "b_Output_0")
    draft.function("Tanh", "b", a)
    assert refused(draft, tmp_path) in (
        "the function 'a' depends on itself without a delay",
        "the function 'b' depends on itself without a delay",
    )


def test_a_delay_outside_a_loop_waits_for_what_it_reads(tmp_path: Path) -> None:
    draft = Draft()
    past = draft.function("PastValue", "past", "a_Output_0", draft.constant("zero", 0.0), offset=SizeT(1))
    draft.function("Tanh", "a", draft.input("x", 2))
    draft.function("Exp", "b", past)
    assert lines(draft.load(tmp_path).network) == ["a = Tanh(x) [2]", "past = PastValue(a) [2]", "b = Exp(past) [2]"]


def test_what_is_repeated_in_a_loop_takes_its_steps_from_outside(tmp_path: Path) -> None:
    """In the original a value of the loop itself may say for which steps."""
    draft = Draft()
    x, v = draft.input("x", 2), draft.input("v", 2, axes="batch")
    draft.placeholder("sum_Output_0", 2)
    past = draft.function("PastValue", "past", "sum_Output_0", draft.constant("zero", 0.0), offset=SizeT(1))
    same = draft.function("Tanh", "t", past)
    each = draft.function("ReconcileDynamicAxis", "each", v, same)
    draft.function("Plus", "sum", draft.function("Plus", "first", x, each), past)
    assert "each = ReconcileDynamicAxis(v, x) [2]" in lines(draft.load(tmp_path).network)


def test_what_is_repeated_for_a_value_outside_a_loop_stays(tmp_path: Path) -> None:
    draft = Draft()
    x, v = draft.input("x", 2), draft.input("v", 2, axes="batch")
    draft.function("ReconcileDynamicAxis", "each", v, draft.function("Tanh", "t", x))
    assert lines(draft.load(tmp_path).network) == ["t = Tanh(x) [2]", "each = ReconcileDynamicAxis(v, t) [2]"]


# -- what is rare -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("CrossEntropyWithSoftmax", "criterion"),
        ("Logistic", "criterion"),
        ("SquaredError", "criterion"),
        ("ClassificationError", "evaluation"),
        ("EditDistanceError", "evaluation"),
        ("CosDistance", "output"),
    ],
)
def test_losses_that_learn_are_criteria_and_others_evaluations(operation: str, role: str, tmp_path: Path) -> None:
    draft = Draft()
    x, y = draft.input("x", 3), draft.input("y", 3)
    penalties = {f"{each}Penalty": 1.0 for each in ("Substitution", "Deletion", "Insertion")}
    settings = {**penalties, "SquashInputs": False} if operation == "EditDistanceError" else {}
    loss = draft.function(operation, "a", x, y, **settings)
    draft.function("Combine", "all", loss, draft.function("Tanh", "z", x))
    network = draft.load(tmp_path).network
    assert network["a"] in network.roots[role]


@pytest.mark.parametrize(
    ("attributes", "axes"),
    [
        ({"newDynamicAxes": [STEPS, BATCH]}, "sequence"),
        ({"newDynamicAxes": [BATCH]}, "batch"),
        ({"newSequenceAxisLengthScalingFactor": 0, "newSequenceAxisLengthAdditiveFactor": 1}, "batch"),
        ({"newSequenceAxisLengthScalingFactor": 1, "newSequenceAxisLengthAdditiveFactor": 0}, "sequence"),
        ({"newSequenceAxisLengthScalingFactor": 0, "newSequenceAxisLengthAdditiveFactor": 2}, "sequence"),
        ({}, "sequence"),
    ],
)
def test_steps_that_are_found(attributes: dict[str, Any], axes: str, tmp_path: Path) -> None:
    """Where one step of each sequence is taken, there are no sequences any more."""
    draft = Draft()
    draft.function("Where", "w", draft.input("x", 1), **attributes)
    (result,) = draft.load(tmp_path).results
    assert result.axes == axes


@pytest.mark.parametrize(("keeps", "shape"), [(True, (2, 3)), (False, (2, 3))])
def test_reduced_steps_leave_all_axes(keeps: bool, shape: tuple[int, ...], tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x", 3, 2)
    draft.function("ReduceElements", "r", x, axis=STEPS, reductionOpName="Sum", reductionKeepDimensions=keeps)
    assert [one.shape for one in draft.load(tmp_path).results] == [shape]


def test_numbers_of_loops_are_numbers(tmp_path: Path) -> None:
    draft = Draft()
    x = draft.input("x")
    draft.placeholder("sum_Output_0")
    past = draft.function("PastValue", "past", "sum_Output_0", draft.constant("zero", 0.0), offset=SizeT(1))
    draft.function("Tanh", "t", draft.function("Plus", "sum", x, past))
    assert [one.shape for one in draft.load(tmp_path).results] == [()]


@pytest.mark.parametrize(
    ("shift", "negatives", "message"),
    [
        (1.0, 2.0, ""),
        (0.0, 0.0, ""),
        (-1.0, 2.0, "the function 'd' needs numbers for its shift and its negative samples"),
        (1.0, 2.0**20 + 1, "the function 'd' needs numbers for its shift and its negative samples"),
        (None, 2.0, "the function 'd' needs numbers for its shift and its negative samples"),
        (1.0, None, "the function 'd' has 3 inputs"),
    ],
)
def test_negative_samples(shift: float | None, negatives: float | None, message: str, tmp_path: Path) -> None:
    draft = Draft()
    x, y = draft.input("x", 3, axes="batch"), draft.input("y", 3, axes="batch")
    given = [draft.constant("s", shift, 1) if shift is not None else draft.parameter("s", 1)]
    given += [] if negatives is None else [draft.constant("n", negatives, 1)]
    draft.function("CosDistanceWithNegativeSamples", "d", x, y, *given)
    if message:
        assert refused(draft, tmp_path) == message
    else:
        (node,) = (node for node in draft.load(tmp_path).network if node.inputs)
        assert (node.attributes.shift, node.attributes.negatives) == (shift, negatives)


def test_variables_without_settings_that_may_be_left_out(tmp_path: Path) -> None:
    draft = Draft()
    draft.function("Plus", "y", draft.input("x", 2), draft.parameter("W", 2))
    for each in draft.inputs:
        for key in ("name", "is_sparse", "needs_gradient"):
            each.pop(key, None)
    draft.inputs[0].pop("dynamic_axis")
    model = draft.load(tmp_path)
    (x,) = model.network.inputs
    assert (x.name, x.sparse, x.framed, x.needs_gradient) == ("x", False, False, False)
    assert model.leaves["W"].needs_gradient is False


@pytest.mark.parametrize("kind", ["parameter", "constant"])
def test_leaves_without_a_value(kind: str, tmp_path: Path) -> None:
    draft = Draft()
    w = draft.parameter("W", 2) if kind == "parameter" else draft.constant("W", 1.0, 2)
    del draft.inputs[0]["value"]
    draft.function("Tanh", "y", w)
    assert refused(draft, tmp_path) == "the variable 'W' has no 'value'"


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({}, (3, 2)),
        ({"beginAxis": Axis(0, "", True)}, (3, 2)),
        ({"beginAxis": Axis(1, "", True)}, (3, 2, 6)),
        ({"beginAxis": Axis(-1, "", True)}, (3, 2, 6)),
        ({"endAxis": Axis(1, "", True)}, (1, 3, 2)),
        ({"beginAxis": Axis(2**31 - 4, "", False)}, (1, 1, 6)),
    ],
)
def test_axes_that_are_shaped_anew(attributes: dict[str, Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    draft = Draft()
    dims = shape[::-1]
    new = {(3, 2): (2, 3), (3, 2, 6): (2, 3), (1, 3, 2): (2, 3), (1, 1, 6): (1, 1)}[shape]
    x = draft.input("x", 6, *((1,) if shape == (1, 3, 2) else () if len(shape) == 2 or shape == (1, 1, 6) else (6,)))
    draft.function("Reshape", "r", x, newShape=NDShape(new), **attributes)
    (result,) = draft.load(tmp_path).results
    assert result.shape == shape
    assert dims == shape[::-1]
