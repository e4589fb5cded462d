"""Models of the original: what every version stores comes in, and nothing hostile or damaged gets through."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from bcn_writer import Model, dims, flag, float32, float64, int32, matrix, size, small_model, wide
from cntk_model_cntk1.bcn.model_format import Cntk1Format
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import CntkError, Input, ModelFormatError, Parameter, UnsupportedError, core_ops
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_testing.examples import examples
from cntk_testing.inside import (
    ModelInfo,
    NegativeSamplesAttributes,
    RNNStackAttributes,
    model_file,
    read_model_info,
    save_model,
)

VERSIONS = range(1, 27)

load_model = Cntk1Format().load

find_op = core_ops().find


def is_model(path):
    return ModelFiles(PluginManager(load_hooks=False).registry).is_model(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "old.dnn"


def load(model, path, dtype=None):
    return load_model(model.write(path), find_op, dtype)


def refused(content, path, kind=ModelFormatError):
    """The message with which a file is refused; the file's own name stands for its path."""
    path.write_bytes(content if isinstance(content, bytes) else content.content())
    with pytest.raises(kind) as caught:
        load_model(path, find_op)
    return str(caught.value).replace(str(path), path.name)


# -- what comes in ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_network_of_every_version(version, precision, path):
    network = load(small_model(version, precision), path)
    assert network.dtype == (np.float64 if precision == "double" else np.float32)
    assert [node.describe() for node in network if node.inputs] == [
        "Wx = Times (W, features) : [3 x *]",
        "before = PastValue (h) : [3 x 1 x *]",
        "Rh = Times (R, before) : [3 x 1 x *]",
        "sum = Plus (Wx, Rh) : [3 x 1 x *]",
        "z = Plus (sum, b) : [3 x 1 x *]",
        "h = Tanh (z) : [3 x 1 x *]",
        "ce = CrossEntropyWithSoftmax (labels, h) : [1]",
        "err = ClassificationError (labels, h) : [1]",
    ]
    assert {role: [node.name for node in nodes] for role, nodes in network.roots.items()} == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["ce"],
        "evaluation": ["err"],
        "output": ["h"],
    }
    w, r = network["W"], network["R"]
    assert isinstance(w, Parameter)
    assert isinstance(r, Parameter)
    assert w.value.dtype == network.dtype
    np.testing.assert_array_equal(w.value.T, [[1, 2], [3, 4], [5, 6]])
    assert (w.learning_rate_multiplier, r.learned) == (0.5 if version >= 3 else 1.0, False)
    assert network["before"].attributes.default_hidden_activation == (0.25 if version >= 2 else 0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_run_chooses_the_precision(dtype, path):
    network = load(small_model(precision="double"), path, dtype)
    assert network.dtype == network["W"].value.dtype == dtype
    network["W"].value[...] = 0  # can be written to


def test_a_model_that_was_read_can_be_saved(path, tmp_path):
    old = load(small_model(), path)
    save_model(old, tmp_path / "new.dnn")
    new = model_file.load_model(tmp_path / "new.dnn", find_op)
    assert [node.describe() for node in new] == [node.describe() for node in old]
    assert new["before"].attributes == old["before"].attributes


def test_it_counts_as_a_model_that_says_nothing_of_its_training(path):
    small_model().write(path)
    assert is_model(path)
    assert read_model_info(path) == ModelInfo(None, 0)


def test_inputs(path):
    model = Model().add("DynamicAxis", "Steps").input("image", 4, 5, 3, axis="steps").input("words", 100, sparse=True)
    network = load(model, path)
    image, words = network["image"], network["words"]
    assert isinstance(image, Input)
    assert isinstance(words, Input)
    assert (image.shape, image.axis, image.sparse) == ((3, 5, 4), "Steps", False)
    assert (words.shape, words.axis, words.sparse) == ((100,), "", True)


def test_inputs_whose_shape_contradicts_their_rows_are_vectors(path):
    data = size(12, 0) + dims(5, 5) + struct.pack("<I", 0) + float32(0.0)
    assert load(Model().add("InputValue", "x", data), path)["x"].shape == (12,)


def test_shapes_of_the_oldest_inputs(path):
    """Width, height and channels of 8 bytes each are an image with its channels first."""
    model = Model(2).add("InputValue", "x", size(60, 1) + size(4, 5, 3))
    assert load(model, path)["x"].shape == (5, 4, 3)


def test_parameters_of_the_oldest_files_with_a_shape_of_their_own(path):
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    data = flag(True) + size(0, 2) + dims(3, 2) + matrix(table)
    assert load(Model(2).add("LearnableParameter", "p", data), path)["p"].shape == (2, 2, 3)


def test_parameters_of_the_oldest_files_that_are_images(path):
    """Width, height and channels of 8 bytes each, and the columns."""
    table = np.arange(48, dtype=np.float32).reshape(24, 2)
    data = flag(True) + size(0, 2) + size(2, 4, 3) + matrix(table)
    assert load(Model(2).add("LearnableParameter", "p", data), path)["p"].shape == (2, 4, 2, 3)


def test_a_parameter_with_more_axes_keeps_the_order_of_its_values(path):
    values = np.arange(24, dtype=np.float32)
    network = load(Model().parameter("p", values.reshape(4, 6, order="F"), shape=(4, 3, 2)), path)
    np.testing.assert_array_equal(network["p"].value, values.reshape(2, 3, 4))


@pytest.mark.parametrize(("ready", "expected"), [(True, [1.5, 2.5]), (False, None)])
def test_values_computed_before_training(ready, expected, path):
    data = flag(ready) + matrix(np.array([[1.5], [2.5]], np.float32))
    mean = load(Model().input("x", 2).add("Mean", "m", data, ("x",)), path)["m"]
    assert (None if mean.value is None else mean.value.tolist()) == expected


def test_old_names_of_groups_and_groups_that_are_no_more(path):
    model = Model(5).input("x", 2).add("SumElements", "c", b"", ("x",))
    model.root("CriteriaNodes", "c", "c").root("NodesReqMultiSeqHandling", "x").root("OutputNodes", "x")
    model.root("PairNodes")
    network = load(model, path)
    assert [node.name for node in network.roots["criterion"]] == ["c"]
    assert [node.name for node in network.roots["output"]] == ["x"]


def normalization(version):
    """A network of one batch normalization whose running statistics are 0.5 and 2."""
    model = Model(version).input("x", 2)
    for name in ("scale", "bias", "mean", "spread"):
        model.parameter(name, [[0.5], [2.0]], 0.0)
    inputs = ("x", "scale", "bias", "mean", "spread")
    if version >= 19:
        model.parameter("count", [[7]], 0.0, (1,))
        inputs += ("count",)
    data = flag(False) + float64(100.0, 5.0) + int32(1)
    if version == 19:
        data += flag(False)
    else:
        data += size(3)
    return model.add("BatchNormalization", "bn", data + float64(0.25) + flag(True), inputs)


def test_inverse_deviations_of_old_normalizations_become_variances(path):
    network = load(normalization(12), path)
    np.testing.assert_allclose(network["spread"].value.ravel(), [4.25, 0.5])
    assert network["bn.run_sample_count"].value.tolist() == [48.0]  # 3 minibatches, taken for 16 samples each


@pytest.mark.parametrize(("version", "name", "count"), [(13, "bn.run_sample_count", 3), (26, "count", 7)])
def test_counts_of_normalizations(version, name, count, path):
    network = load(normalization(version), path)
    np.testing.assert_allclose(network["spread"].value.ravel(), [0.5, 2.0])
    counter = network["bn"].inputs[5]
    assert isinstance(counter, Parameter)
    assert (counter.name, counter.value.tolist(), counter.learned) == (name, [count], False)
    bn = network["bn"].attributes
    assert (bn.normalization_time_constant, bn.blend_time_constant, bn.epsilon) == (100.0, 5.0, 0.25)


def test_statistics_that_two_normalizations_share_are_converted_once(path):
    model = normalization(12)
    data = flag(False) + float64(100.0, 5.0) + int32(1) + size(3) + float64(0.25) + flag(True)
    model.add("BatchNormalization", "again", data, ("bn", "scale", "bias", "mean", "spread"))
    np.testing.assert_allclose(load(model, path)["spread"].value.ravel(), [4.25, 0.5])


def test_normalizations_with_versions_of_their_own(path):
    model = Model(5).input("x", 2)
    for name in ("scale", "bias", "mean", "spread"):
        model.parameter(name, [[0.5], [2.0]], 0.0)
    data = int32(0x00010003, 0x00010003) + flag(False, True) + float64(0.1) + int32(1) + size(2)
    model.add("BatchNormalization", "bn", data + float64(0.25) + flag(False), ("x", "scale", "bias", "mean", "spread"))
    bn = load(model, path)["bn"]
    assert (bn.attributes.spatial, bn.attributes.normalization_time_constant) == (True, 0.0)
    assert (bn.attributes.epsilon, bn.attributes.use_cntk_engine) == (0.25, False)
    assert bn.inputs[5].value.tolist() == [32.0]


def test_old_recurrent_stacks_have_their_inputs_the_other_way_round(path):
    weights = 4 * 3 * (2 + 3 + 2)
    model = Model(13).input("x", 2).parameter("w", np.zeros((weights, 1)), shape=(weights,))
    model.add("RNN", "r", size(0, 1, 3) + wide("LSTM"), ("x", "w"))
    node = load(model, path)["r"]
    assert [child.name for child in node.inputs] == ["w", "x"]
    assert node.attributes == RNNStackAttributes(3, 1, False, "lstm", -1)


def test_numbers_of_negative_samples_become_settings(path):
    model = Model().input("x", 2).input("y", 2).parameter("shift", [[1]], 0.0).parameter("count", [[4]], 0.0)
    model.add("CosDistanceWithNegativeSamples", "c", b"", ("x", "y", "shift", "count"))
    node = load(model, path)["c"]
    assert node.attributes == NegativeSamplesAttributes(1, 4)
    assert [child.name for child in node.inputs] == ["x", "y", "shift", "count"]
    assert node.shape == (5,)


def test_operations_that_cannot_run_yet_come_in_all_the_same(path):
    model = Model().input("x", 2).input("y", 2).input("n", 1)
    model.add("SequenceWithSoftmax", "s", b"", ("x", "y", "y")).add("LambdaRank", "l", b"", ("n", "n", "n"))
    model.add("Trace", "t", trace(), ("x",))
    network = load(model.root("OutputNodes", "t"), path)
    assert network["t"].attributes.format[:3] == ("type=real", "transpose=True", "prologue=")


def trace():
    return b"hello\0" + size(10, 100) + flag(False, False) + wide("") + flag(False, True) + bytes(8) + size(5, 6)


def test_a_file_without_roots_gives_what_nobody_reads(path):
    model = small_model()
    model.roots.clear()
    assert [node.name for node in load(model, path).roots["output"]] == ["ce", "err"]


# -- what must not get through ----------------------------------------------------------------------------


def test_a_newer_version(path):
    assert refused(small_model().content().replace(size(26), size(32), 1), path) == (
        "'old.dnn' is a model of the original CNTK of format version 32; versions 1 to 31 can be read"
    )


def test_an_unknown_operation(path):
    assert refused(Model().add("Magic", "m"), path, UnsupportedError) == (
        "'old.dnn' has a node of the unknown operation 'Magic' before byte 108\n"
        "    Nobody knows how much such a node stores, so that nothing behind it can be read."
    )


def test_an_operation_of_which_it_is_not_known_what_it_stores(path):
    assert refused(Model().add("OneHot", "m"), path, UnsupportedError) == (
        "'old.dnn' has a node of OneHot before byte 110: what the original stores for that operation is not known"
    )


def test_an_empty_file_behind_its_beginning(path):
    assert refused("BCN".encode("utf-16-le"), path) == (
        "'old.dnn' is damaged at byte 0: the file ends where the section mark 'BCN' must stand"
    )


def test_a_truncated_file(path):
    assert refused(small_model().content()[:-60], path).startswith("'old.dnn' is damaged at byte ")
    content = small_model().content()
    assert refused(content[: content.index(b"E\0M\0A\0T\0") - 4], path) == (
        "'old.dnn' is damaged at byte 373: a matrix needs 24 bytes, but the file ends after 20"
    )


def test_more_nodes_than_the_file_can_have(path):
    content = Model().content()
    at = content.index(wide("EVersion")) + len(wide("EVersion"))
    assert refused(content[:at] + size(2**60) + content[at + 8 :], path) == (
        "'old.dnn' is damaged at byte 52: 1152921504606846976 nodes cannot follow in 132 bytes"
    )


def test_a_missing_section(path):
    content = Model().content().replace(wide("ERelation"), wide("XRelation"))
    assert refused(content, path) == (
        "'old.dnn' is damaged at byte 120: here the section mark 'ERelation' must stand, not 'XRelation'"
    )


def test_a_matrix_that_does_not_fit_its_shape(path):
    assert refused(Model().parameter("p", np.zeros((2, 3)), shape=(2, 2)), path) == (
        "'old.dnn' is damaged at byte 150: the parameter 'p' is [2 x 2], but has 6 values"
    )


def test_a_sparse_matrix(path):
    model = Model().add("LearnableParameter", "p", float32(1.0) + dims(2) + b"s")
    assert refused(model, path, UnsupportedError) == ("'old.dnn' has a sparse matrix at byte 146, which cannot be read")


def test_a_matrix_of_other_numbers(path):
    broken = matrix(np.zeros((2, 1), np.float32)).replace(size(4), size(2), 1)
    assert refused(Model().add("LearnableParameter", "p", float32(1.0) + dims(2) + broken), path) == (
        "'old.dnn' is damaged at byte 157: the elements of a matrix have 4 or 8 bytes"
    )


def test_a_precision_that_there_is_not(path):
    assert refused(Model(precision="half").add("Tanh", "t"), path) == (
        "'old.dnn' is damaged at byte 80: there is no precision 'half'"
    )


def test_a_node_without_name(path):
    assert refused(Model().add("Tanh", ""), path) == "'old.dnn' is damaged at byte 104: a node has no name"


def test_a_shape_of_many_dimensions(path):
    model = Model().add("LearnableParameter", "p", float32(1.0) + dims(*range(33)))
    assert refused(model, path) == "'old.dnn' is damaged at byte 138: a shape of 33 dimensions"


def test_two_dynamic_axes(path):
    model = Model().add("InputValue", "x", size(0, 0) + dims(2) + struct.pack("<I", 2))
    assert refused(model, path) == "'old.dnn' is damaged at byte 142: the input 'x' has 2 dynamic axes"


def test_an_input_that_is_no_node(path):
    assert refused(Model().add("Tanh", "t", b"", ("x",)), path) == (
        "'old.dnn' holds no sound network: the network has no node 'x'"
    )


def test_a_name_that_is_used_twice(path):
    assert refused(Model().input("x", 2).input("X", 2), path) == (
        "'old.dnn' holds no sound network: the node name 'X' is already used: 'x' differs only in case"
    )


def test_a_cycle_without_delay(path):
    assert refused(Model().add("Tanh", "a", b"", ("b",)).add("Tanh", "b", b"", ("a",)), path) == (
        "'old.dnn' holds no sound network: the nodes a -> b -> a form a cycle without a delay"
    )


def test_computed_values_that_do_not_fit(path):
    data = flag(True) + matrix(np.zeros((3, 1), np.float32))
    assert refused(Model().input("x", 2).add("Mean", "m", data, ("x",)), path) == (
        "'old.dnn' holds no sound network: 'm' is [2], but has 3 values"
    )


def test_more_layers_than_anyone_has(path):
    model = Model().add("OptimizedRNNStack", "r", size(0, 2**62, 3) + wide("lstm") + int32(-1))
    assert refused(model, path) == (
        "'old.dnn' is damaged at byte 140: 4611686018427387904 is no sensible number of layers"
    )


def test_more_negative_samples_than_anyone_has(path):
    model = Model().input("x", 2).parameter("shift", [[1]]).parameter("count", [[1e30]])
    model.add("CosDistanceWithNegativeSamples", "c", b"", ("x", "x", "shift", "count"))
    assert refused(model, path) == (
        "'old.dnn' holds no sound network: CosDistanceWithNegativeSamples 'c' needs a number in 'count'"
    )


def test_a_text_that_is_not_utf16(path):
    content = Model().add("Tanh", "name").content()
    assert refused(content.replace(wide("name"), b"\x00\xdc" + wide("ame"), 1), path) == (
        "'old.dnn' is damaged at byte 102: the name of a node is not UTF-16"
    )


SMALL = {version: small_model(version).content() for version in (1, 4, 26)}


@pytest.mark.parametrize("version", SMALL)
@pytest.mark.sampled(3)
def test_wherever_a_file_ends_too_early_it_is_refused(version, path):
    content = SMALL[version]
    for end in range(6, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(CntkError):
            load_model(path, find_op)


@examples(200)
@given(
    version=st.sampled_from(sorted(SMALL)),
    changes=st.lists(st.tuples(st.integers(6, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_whatever_is_changed_the_file_comes_in_or_is_refused(version, changes, tmp_path_factory):
    content = bytearray(SMALL[version])
    for at, value in changes:
        content[6 + at % (len(content) - 6)] = value
    path = tmp_path_factory.getbasetemp() / "changed.dnn"
    path.write_bytes(content)
    with suppress(CntkError):
        assert len(load_model(path, find_op)) >= 13
