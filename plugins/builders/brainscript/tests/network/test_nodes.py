"""Nodes of operations: settings, leaves, inputs that come later, what is known of a node, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_brainscript.dims import shape_of

from cntk_core.api.builders import FixedValue, FromFile, FromLiteral, Random, SeedNumbers
from cntk_testing.networks import Sketch


def test_settings_of_operations(build):
    network = build(
        """{
        x = Input {(6:6:2)}
        s = Slice (1, 3, x, axis = 2)
        r = NewReshape (x, (0:12), beginAxis = 1, endAxis = 3)
        m = ReduceMax (x, axis = 3)
        t = TransposeDimensions (x, 1, 3)
        p = MaxPoolingLayer {(2:2), stride = 2} (x)
        o = LegacyOf (x)
        LegacyOf (y) = Reshape (y, 72)
        }"""
    )
    assert network["s"].attributes.begin == (1,)
    assert network["s"].describe().endswith("[6 x 2 x 2 x *]")
    assert network["r"].attributes.dims == (0, 12)
    assert network["m"].attributes.reduction_op == "Max"
    assert network["t"].describe().endswith("[2 x 6 x 6 x *]")
    assert network["p"].attributes.stride == (2,)
    assert network["p"].describe().endswith("[3 x 3 x 2 x *]")
    assert network["o"].attributes.rows == 72


def test_parts_by_strides(build):
    network = build("{ x = Input {7} ; a = Slice (1, 6, x, stride = 2) ; b = CNTK2.Slice (x, 0, 0, stride = -3) }")
    assert [network[name].shape for name in "ab"] == [(3,), (3,)]


def test_inputs_of_any_size_and_without_sequences(build, error_of):
    network = build(
        """{
        image = ImageInput {FreeDimension, FreeDimension, 3, dynamicAxis = BatchAxis}
        c = Convolution (ParameterTensor {(3:3:3:8)}, image, (3:3))
        z = ReduceSum (ReduceSum (c, axis = 1), axis = 2)
        }"""
    )
    assert network["image"].describe().endswith("[? x ? x 3 x *]")
    assert network["image"].describe_axes() == "'image' has the axes [batch]"
    assert network["z"].describe().endswith("[1 x 1 x 8 x *]")
    assert error_of("{ x = Input {(4 : 0)} ; z = ReLU (x) }") == (
        "r.cntk:1:33: InputValue 'x' needs all its dimensions\n"
        "    FreeDimension is one whose size each minibatch brings.\n"
        "    in Input (dims) called at r.cntk:1:33"
    )
    assert "must be dimensions (0 is one to be inferred), not the number -3" in error_of(
        "{ x = Input {4} ; z = ParameterTensor {(3 : FreeDimension)} * x }"
    )


def test_the_elements_of_a_parameter_as_an_array(build):
    """The first axis of the shape comes first, as everywhere; a dimension that is 0 is found by counting."""
    network = build(
        """{
        W = ParameterTensor {(2 : 3), initValue = (1 : 2 : 3 : 4 : 5 : 6)}
        T = ParameterTensor {(2 : 2 : 2), initValue = array [0..7] (i => i)}
        v = ParameterTensor {Inferred, initValue = (1 : 2)}
        b = ParameterTensor {(2 : 0), initValue = (1 : 2 : 3 : 4)}
        }"""
    )
    values = {name: network[name].initializer(network[name].shape, np.dtype("f8"), 0).tolist() for name in "WTvb"}
    assert values == {
        "W": [[1, 2], [3, 4], [5, 6]],
        "T": [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
        "v": [1, 2],
        "b": [[1, 2], [3, 4]],
    }


def test_transposed_convolutions_of_versions_before_2(build):
    """``Convolution`` had a parameter for it; ``false`` stands in recipes of that time, too."""
    network = build(
        """{
        p = ImageInput {6, 6, 2}
        a = Convolution (ParameterTensor {(3 : 3 : 2 : 8)}, p, (3 : 3), mapDims = 8, transpose = false)
        W = ParameterTensor {(2 : 2 : 3 : 2)}
        b = Convolution (W, p, (2 : 2 : 3), mapDims = 2, stride = 2, autoPadding = false, transpose = true)
        c = ConvolutionTranspose (W, p, (2 : 2 : 3), mapDims = 2, stride = 2, autoPadding = false)
        }"""
    )
    assert network["a"].shape == (8, 6, 6)
    assert network["b"].attributes == network["c"].attributes
    assert network["b"].shape == network["c"].shape


def test_a_convolution_along_sequences(build):
    network = build(
        "{ x = Input {(6 : 2)} ; z = Convolution (ParameterTensor {(3:3:2:8)}, x, (3:3), sequential = true) }"
    )
    assert network["z"].shape == (8, 6)
    assert network["z"].axis == "z"


def test_settings_of_a_convolution(build):
    network = build(
        """{
        x = Input {(8:8:3)}
        z = ConvolutionalLayer {4, (3:3), stride = (2:1), pad = true, init = 'heNormal'} (x)
        }"""
    )
    made = next(node for node in network if node.op.name == "Convolution")
    assert made.attributes.kernel_shape == (3, 3)
    assert made.attributes.map_count == (4,)
    assert made.attributes.stride == (2, 1)
    assert made.attributes.auto_padding == (True,)
    assert not made.attributes.transpose
    weights = made.inputs[0].initializer
    assert isinstance(weights, Random)
    assert (weights.kind, weights.filter_rank, weights.output_rank) == ("heNormal", 2, -1)


def test_every_form_of_convolution(build):
    network = build(
        """{
        x = Input {(8:8:2)}
        own = Convolution (ParameterTensor {(3:3:2:288)}, x, (3:3:2), mapDims = 8, sharing = (false:false:true),
                           autoPadding = false)
        maps = Convolution (ParameterTensor {(3:3:2:0:2:4)}, x, (3:3:2), mapDims = (1:2:4), stride = (1:1:2),
                            autoPadding = (true:true:false))
        padded = Convolution (ParameterTensor {(4:4:0:3)}, x, (4:4), mapDims = 3, stride = 2, autoPadding = false,
                              lowerPad = (1:1), upperPad = (1:1))
        up = ConvolutionTransposeLayer {3, (4:4), 2, stride = (2:2:3), pad = (true:true:false),
                                        outputShape = (16:15:3)} (x)
        smooth = BilinearUpsamplingLayer {2, 4, 2} (x)
        old = Convolution (ParameterTensor {(5:18)}, Input {(2:8:6)}, (3:3), mapDims = 5, stride = (2:1),
                           autoPadding = false, imageLayout = 'HWC')
        line = Convolution (ParameterTensor {(3:6)}, Input {7}, 3, mapDims = 6, stride = 2, autoPadding = false)
        part = new ComputationNode [ operation = 'Crop' ; inputs = (x : padded2) ]
        padded2 = Convolution (ParameterTensor {(3:3:2:1)}, x, (3:3), mapDims = 1, autoPadding = false)
        }"""
    )
    network.infer()
    shapes = {
        "own": "[6 x 6 x 8 x *]",
        "maps": "[8 x 16 x 4 x *]",
        "padded": "[4 x 4 x 3 x *]",
        "up": "[16 x 15 x 3 x *]",
        "smooth": "[18 x 18 x 2 x *]",
        "old": "[5 x 3 x 4 x *]",
        "line": "[18 x *]",
        "part": "[6 x 6 x 2 x *]",
    }
    assert {name: network[name].describe().rpartition(" : ")[2] for name in shapes} == shapes
    assert network["own"].attributes.sharing == (False, False, True)
    assert network["part"].attributes.x_offset == 1


def test_settings_of_trace(build):
    network = build(
        "{ x = Input {4} ; z = Trace (x, say = 'x', onlyUpToT = 3, format = [ type = 'real' ; transpose = true ]) }"
    )
    assert network["z"].attributes.say == "x"
    assert network["z"].attributes.only_up_to_t == 3
    assert network["z"].attributes.format == ("type=real", "transpose=true")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("", Random("uniform", seed=1)),
        ("init = 'glorotNormal', initValueScale = 2, randomSeed = 5", Random("glorotNormal", 2.0, seed=5)),
        ("initValue = 0.25", FixedValue(0.25)),
        ("init = 'zero'", FixedValue(0.0)),
        ("init = 'fixedValue', value = 3", FixedValue(3.0)),
    ],
)
def test_first_values_of_parameters(build, settings, wanted):
    comma = ", " if settings else ""
    assert build(f"{{ W = ParameterTensor {{(3:4){comma}{settings}}} }}")["W"].initializer == wanted


def test_a_parameter_of_a_record_has_the_scale_1(build):
    text = "new ComputationNode [ operation = 'LearnableParameter' ; shape = new TensorShape [ dims = 3:4 ] ; %s ]"
    network = build(
        "{ W = " + text % "init = 'gaussian'" + " ; V = " + text % "init = 'gaussian' ; initValueScale = 2" + " }"
    )
    assert network["W"].initializer.scale == 1.0
    assert network["V"].initializer.scale == 2.0


def test_values_from_files_and_texts_give_dimensions(build, tmp_path):
    (tmp_path / "w.txt").write_text("1 2\n3 4\n5 6\n")
    network = build(
        """{
        W = ParameterTensor {(0:0), initFromFilePath = 'w.txt'}
        V = ParameterTensor {(0:2), init = 'fromLiteral', initFromLiteral = '1 2
        3 4'}
        }""",
        directory=tmp_path,
    )
    assert isinstance(network["W"].initializer, FromFile)
    assert network["W"].shape == (2, 3)
    assert network["V"].shape == (2, 2)
    assert isinstance(network["V"].initializer, FromLiteral)


@pytest.mark.parametrize(
    ("settings", "first", "described"),
    [
        ("", Random("uniform", seed=1), "init='uniform'"),
        (", init = 'gaussian', randomSeed = 3", Random("gaussian", seed=3), "init='gaussian'"),
        (", initValue = 0.5", FixedValue(0.5), "initValue"),
    ],
)
def test_a_text_of_values_that_has_no_effect_is_told(build, settings, first, described):
    """As in the original, initFromLiteral without init='fromLiteral' does nothing."""
    lines = []
    network = build(f"{{\n  U = ParameterTensor {{(1:2), initFromLiteral = '1 2'{settings}}}\n}}", trace=lines.append)
    assert network["U"].initializer == first
    assert lines == [
        f"r.cntk:2:7: Warning: initFromLiteral has no effect, LearnableParameter 'U' is initialized by {described}; "
        "write init='fromLiteral' as well"
    ]


def test_parameters_are_numbered_in_the_order_of_evaluation(build):
    """The members of a record are taken by name; what a member needs comes first. Fixed seeds do not count."""
    text = "{ V = ParameterTensor {(3:1)} ; W = ParameterTensor {(3:1)} ; A = W + V + U ; C = ParameterTensor {(3:1)}\n"
    text += "U = ParameterTensor {(3:1), randomSeed = 7} ; B = ParameterTensor {(3:1), init = 'zero'} }"
    seeds = SeedNumbers()
    network = build(text, seeds=seeds)
    found = {name: network[name].initializer.seed for name in "CUVW"}
    assert found == {"W": 1, "V": 2, "U": 7, "C": 3}
    assert build(text, seeds=seeds)["V"].initializer.seed == 5


def test_constants_are_not_learned(build):
    network = build("{ c = Constant (3) ; W = ParameterTensor {(2), learningRateMultiplier = 0.5} }")
    assert not network["c"].learned
    assert network["c"].shape == (1, 1)
    assert network["W"].learning_rate_multiplier == 0.5


def test_inputs(build):
    network = build(
        """{
        time = DynamicAxis {}
        a = Input {(3:4), dynamicAxis = time}
        b = SparseInput {9, dynamicAxis = 'other', tag = 'label'}
        c = ImageInput {5, 6, 3}
        d = ImageInput {5, 6, 3, imageLayout = 'HWC'}
        }"""
    )
    assert network["a"].shape == (4, 3)
    assert network["a"].axis == "time"
    assert network["b"].sparse
    assert network["b"].axis == "other"
    assert network["c"].shape == (3, 6, 5)
    assert network["d"].shape == (6, 5, 3)
    assert network.roots["label"] == [network["b"]]


def test_delays_take_what_comes_later(describe):
    network = describe("{ x = Input {4} ; h = Tanh (x + before) ; before = PastValue (4, h, timeStep = 2) }")
    assert network["before"].inputs == [network["h"]]
    assert network["before"].attributes.time_step == 2
    assert network["before"].attributes.default_hidden_activation == 0.1
    assert network["before"].attributes.dims == (4,)


def test_a_cycle_without_a_delay(error_of):
    assert "needs its own value" in error_of("{ x = Input {4} ; h = Tanh (x + g) ; g = Exp (h) }")


def test_shapes_that_are_not_known_yet():
    made = Sketch("float32")
    weights = made.parameter("W", 2, 3)
    assert shape_of(made.op("Tanh", weights)) == (2, 3)
    weights.shape = (0, 3)
    assert shape_of(made.op("Tanh", weights)) is None
    assert shape_of(made.op("Times", weights, made.input("x", 5, 3))) == (5, 3)
    assert shape_of(made.op("Plus", weights, made.input("y", 5, 3))) == (5, 3)


def test_what_is_known_of_a_node(build):
    network = build(
        """{
        x = Input {(3:4)}
        y = NewReshape (x, x.dim)
        W = ParameterTensor {(y.dim : x.dims)}
        s = W + 1
        a = Exp (if s.operation == 'Plus' && s.name == 's' then s.inputs[0] else x)
        b = Exp (s.PlusArgs[1])
        p = PastValue (1, x)
        V = ParameterTensor {(p.dim : 2)}
        }"""
    )
    assert network["V"].shape == (2, 1)
    assert network["W"].shape == (4, 3, 12)
    assert network["a"].inputs == [network["W"]]
    assert network["b"].inputs == [network["s"].inputs[1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{ x = Input {4} ; z = LinearLayer {x.dim} (LinearLayer {0} (x)).dim }",
            "r.cntk:1:69: the dimensions of 'z' are not known yet",
        ),
        ("{ x = Input {4} ; z = Exp (x.nothing) }", "r.cntk:1:56: the node 'x' has no member 'nothing'"),
        ("{ x = Input {0} }", "r.cntk:1:33: InputValue 'x' needs all its dimensions"),
        ("{ x = Input {'a'} }", "r.cntk:1:33: 'dims' must be whole numbers, not the text 'a'"),
        ("{ x = Input {-2} }", "r.cntk:1:40: 'dims' must be dimensions, not the number -2"),
        ("{ x = Input {4, tag = 'lable'} }", "r.cntk:1:33: there is no tag 'lable' for nodes; did you mean 'label'?"),
        (
            "{ x = Input {4} ; z = RowSlice (0, 1.5, x) }",
            "r.cntk:1:49: 'endIndex' must be whole numbers, not the number 1.5",
        ),
        ("{ x = Input {4} ; z = Tanh ('x') }", "r.cntk:1:49: 'inputs' must be a node or an array of nodes"),
        (
            "{ W = ParameterTensor {3, init = 'unform'} }",
            "r.cntk:1:33: there is no initializer 'unform'; did you mean 'uniform'?",
        ),
        (
            "{ W = ParameterTensor {3, init = 'fromFile'} }",
            "r.cntk:1:33: the initializer 'fromFile' needs initFromFilePath",
        ),
        (
            "{ W = ParameterTensor {3, learningRateMultiplier = -1} }",
            "r.cntk:1:33: learningRateMultiplier of LearnableParameter 'W' is negative: -1",
        ),
        (
            "{ W = ParameterTensor {2, initValue = (1:2:3)} }",
            "r.cntk:1:67: initValue of LearnableParameter 'W' has 3 elements, and its shape is [2]",
        ),
        (
            "{ x = ImageInput {5, 6, 3, imageLayout = 'WCH'} }",
            "r.cntk:1:33: there is no imageLayout 'WCH'",
        ),
        (
            "{ W = new ComputationNode [ operation = 'LearnableParameter' ; shape = 3 ; needsGradient = false ] }",
            "r.cntk:1:33: 'needsGradient' is not a setting of a parameter in BrainScript",
        ),
        ("{ x = Input {4} ; z = new ComputationNode [ inputs = x ] }", "r.cntk:1:49: a node needs 'operation'"),
        (
            "{ x = Input {4} ; z = new ComputationNode [ operation = 'Slice' ; inputs = x ] }",
            "r.cntk:1:49: Slice 'z' needs 'beginIndex'",
        ),
    ],
)
def test_mistakes(error_of, text, message):
    assert error_of(text).splitlines()[0].startswith(message)


def test_all_unknown_operations_are_named_at_once(error_of):
    text = """{
    x = Input {4}
    a = new ComputationNode [ operation = 'Tahn' ; inputs = x ]
    b = new ComputationNode [ operation = 'Zzz' ; inputs = a ]
    }"""
    assert error_of(text).splitlines() == [
        "r.cntk:3:9: there is no operation 'Tahn'; did you mean 'Tanh'?",
        "r.cntk:4:9: there is no operation 'Zzz'",
        "2 problems found",
    ]


def test_mistakes_of_several_members_are_told_together(error_of):
    lines = error_of("{ x = Input {4}\n a = Foo (x)\n b = Bar (x)\n c = a }").splitlines()
    assert [line for line in lines if line.startswith("r.cntk")] == [
        "r.cntk:2:6: unknown identifier 'Foo'; did you mean 'Floor'?",
        "r.cntk:3:6: unknown identifier 'Bar'",
    ]
