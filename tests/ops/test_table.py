"""Names of ops in the languages, and ops of third parties."""

from __future__ import annotations

import pickle

import attrs
import pytest

from cntk_core.errors import PluginError
from cntk_core.ops.language.define import define_op, elementwise_op
from cntk_core.ops.language.op import NoAttributes
from cntk_core.ops.table import core_ops
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import check_op

NDL_NAMES = [
    "Abs",
    "ClassificationError",
    "ErrorPrediction",
    "Clip",
    "CosDistance",
    "CosDist",
    "CosDistanceWithNegativeSamples",
    "CosWithNegSamples",
    "Cosine",
    "Cos",
    "CrossEntropy",
    "CrossEntropyWithSoftmax",
    "CEWithSM",
    "DiagTimes",
    "Diagonal",
    "Dropout",
    "DummyCriterion",
    "ElementTimes",
    "Equal",
    "Exp",
    "Floor",
    "Greater",
    "GreaterEqual",
    "Hardmax",
    "If",
    "InputValue",
    "Input",
    "InvStdDev",
    "KhatriRaoProduct",
    "ColumnwiseCrossProduct",
    "LearnableParameter",
    "Parameter",
    "Less",
    "LessEqual",
    "Log",
    "Logistic",
    "LogPlus",
    "LogSoftmax",
    "MatrixL1Reg",
    "L1Reg",
    "MatrixL2Reg",
    "L2Reg",
    "Mean",
    "Minus",
    "Negate",
    "NotEqual",
    "Pass",
    "PerDimMeanVarDeNormalization",
    "PerDimMVDeNorm",
    "PerDimMeanVarNormalization",
    "PerDimMVNorm",
    "Plus",
    "Reciprocal",
    "RectifiedLinear",
    "ReLU",
    "Reshape",
    "RowRepeat",
    "RowStack",
    "Sigmoid",
    "Sin",
    "Softmax",
    "SparseInputValue",
    "SparseInput",
    "Sqrt",
    "SquareError",
    "SE",
    "SumColumnElements",
    "SumElements",
    "Tanh",
    "Times",
    "TransposeTimes",
    "ColumnElementTimes",
    "RowElementTimes",
    "RowSlice",
    "Scale",
    "Transpose",
]


@pytest.mark.parametrize("name", NDL_NAMES)
def test_ndl_knows_the_name(name):
    op = core_ops().find("ndl", name)
    assert op is not None
    assert core_ops().find("ndl", name.upper()).name == op.name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ColumnElementTimes", "ElementTimes"),
        ("RowElementTimes", "ElementTimes"),
        ("Scale", "ElementTimes"),
        ("ErrorPrediction", "ClassificationError"),
        ("PerDimMeanVarNormalizationNode", "PerDimMeanVarNormalization"),
        ("PerDimMeanVarDeNormalizationNode", "PerDimMeanVarDeNormalization"),
        ("RowSlice", "Slice"),
        ("Transpose", "TransposeDimensions"),
    ],
)
def test_model_files_know_old_names(old, new):
    assert core_ops().find("model", old).name == new


def test_languages_are_kept_apart():
    table = core_ops()
    assert table.find("", "SE") is None
    assert table.find("brainscript", "CEWithSM") is None
    assert table.find("brainscript", "crossentropywithsoftmax").name == "CrossEntropyWithSoftmax"
    assert table.find("ndl", "Nothing") is None


def test_names_are_sorted_and_complete():
    table = core_ops()
    names = table.names("ndl")
    assert names == sorted(names, key=str.lower)
    assert set(NDL_NAMES) <= set(names)
    assert table.names("") == sorted((op.name for op in table), key=str.lower)
    assert len(table) == len(list(table))


def test_tables_do_not_share_what_is_added():
    table = core_ops()
    table.add(attrs.evolve(table.find("", "Tanh"), name="Tanh2"))
    assert core_ops().find("", "Tanh2") is None


def test_a_name_twice_is_refused():
    table = core_ops()
    count = len(table)
    other = elementwise_op("TANH")(lambda m, attributes, x: m.tanh(x))
    with pytest.raises(PluginError) as error:
        table.add(other)
    assert str(error.value) == (
        "the name 'TANH' of the op 'TANH' already means 'Tanh'\n"
        "    Give the op another name, or install only one of the wheels."
    )
    alias = elementwise_op("MyTanh", aliases={"ndl": ("ReLU",)})(lambda m, attributes, x: m.tanh(x))
    with pytest.raises(PluginError) as error:
        table.add(alias)
    assert error.value.message == "the name 'ReLU' of the op 'MyTanh' already means 'RectifiedLinear' in ndl"
    assert len(table) == count
    assert table.find("ndl", "MyTanh") is None


def test_an_unknown_language_is_refused():
    op = elementwise_op("MyTanh", aliases={"ndll": ("T",)})(lambda m, attributes, x: m.tanh(x))
    with pytest.raises(PluginError) as error:
        core_ops().add(op)
    assert str(error.value) == (
        "the op 'MyTanh' has names in the unknown language 'ndll'\n    Languages: ndl, brainscript, model"
    )


@elementwise_op("Swish", gradient=lambda m, a, g, y, x: g * (y + m.sigmoid(x) * (1.0 - y)))
def swish(m, a, x):
    """x times its sigmoid."""
    return x * m.sigmoid(x)


@attrs.frozen
class PowerAttributes:
    exponent: float = 2.0


@elementwise_op(
    "Power", attributes=PowerAttributes, gradient=lambda m, a, g, y, x: (g * a.exponent * m.power(x, a.exponent - 1.0),)
)
def constant_power(m, a, x):
    """x to a constant power."""
    return m.power(x, a.exponent)


@define_op(
    "Flip",
    infer=lambda shapes, attributes: shapes[0],
    gradient=lambda xp, grad, output, inputs, attributes, context, needs: (grad[..., ::-1],),
    reads_inputs=False,
    reads_output=False,
)
def flip(xp, inputs, attributes, context):
    """The elements of each column in reverse order."""
    return inputs[0][..., ::-1]


def test_an_op_of_a_third_party_needs_a_few_lines():
    assert (swish.name, swish.arity, swish.doc) == ("Swish", (1, 1), "x times its sigmoid.")
    assert swish.attributes is NoAttributes
    check_op(swish, OpExample(((4,),)))
    check_op(constant_power, OpExample(((2, 3),), PowerAttributes(3.0)))
    check_op(flip, shapes=[(3, 4)])
    table = core_ops()
    assert table.add(swish) is swish
    assert table.find("ndl", "swish") is swish


def test_an_op_without_gradient_is_not_differentiable():
    step = elementwise_op("Step")(lambda m, a, x: m.greater(x, 0.0))
    assert not step.flows_to(0)
    check_op(step, OpExample(((4,),), nan=()))
    assert step.infer([(3,)], NoAttributes()) == (3,)


def test_a_changed_op_of_the_cores_name_is_not_pickled():
    times = core_ops().find("", "Times")
    assert pickle.loads(pickle.dumps(times)) is times
    for name in ("Times", "Tanh", "TimesThree"):
        changed = attrs.evolve(core_ops().find("", "Tanh"), name=name, doc="Another.")
        with pytest.raises(PluginError, match=f"^the operation {name} cannot be pickled: it is not found by its name"):
            pickle.dumps(changed)
