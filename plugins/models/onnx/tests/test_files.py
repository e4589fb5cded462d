"""Files as bytes: what is in them, tensors beside them, and damage."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from cntk_model_onnx.export.exporter import export
from cntk_model_onnx.model_format import OnnxFormat
from cntk_model_onnx.own import describe
from cntk_model_onnx.settings import ExportSettings
from cntk_model_onnx.wire import _content, read_model, write_model
from judge import DATA, described, gap_between, load, same, stripped, written

from cntk_core.api import CntkError, ModelFormatError, Network, UnsupportedError, UsageError, core_ops
from cntk_testing.networks import Sketch, classifier
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES


def network() -> Network:
    made = classifier("float32")
    made.network.roots["output"] = made.roots
    return made.network


def test_files_are_sound_for_onnx(tmp_path: Path) -> None:
    path = written(network(), tmp_path / "net.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert [entry.version for entry in model.opset_import] == [21]
    assert model.producer_name == "cntk-core"
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_our_own_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    made = network()
    same(load(written(made, tmp_path / "net.onnx")), made)


def test_of_a_changed_file_the_graph_counts(tmp_path: Path) -> None:
    made = network()
    path = written(made, tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.node.append(onnx.helper.make_node("Neg", [model.graph.output[0].name], ["turned"]))
    model.graph.output[0].name = "turned"
    onnx.save(model, path)
    back = load(path)
    assert [node.name for node in back.roots["output"]] == ["turned"]
    assert [node.op.name for node in back.roots["output"]] == ["Negate"]


def test_a_file_of_ours_without_its_description(tmp_path: Path) -> None:
    made = network()
    other = load(stripped(written(made, tmp_path / "net.onnx")))
    assert gap_between(made, other) < 1e-6
    assert described(other) != described(made)


def test_large_tensors_are_beside_the_graph(tmp_path: Path) -> None:
    made = network()
    exported = export(made, ExportSettings())
    describe(exported, made)
    path = tmp_path / "net.onnx"
    write_model(path, exported.model, exported.tensors, limit=10)
    assert (tmp_path / "net.onnx.data").stat().st_size > 10
    onnx.checker.check_model(str(path), full_check=True)
    same(load(path), made)
    (tmp_path / "net.onnx.data").write_bytes(b"short")
    with pytest.raises(ModelFormatError, match=re.escape("is not whole in 'net.onnx.data'")):
        load(path)
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(ModelFormatError, match=re.escape("is in 'net.onnx.data', which is no file beside the model")):
        load(path)


def test_tensors_elsewhere_are_not_read(tmp_path: Path) -> None:
    model = onnx.load(written(network(), tmp_path / "net.onnx"))
    (tmp_path / "secret").write_bytes(bytes(1000))
    folder = tmp_path / "models"
    folder.mkdir()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelFormatError, match="which is no file beside the model"):
        load(folder / "net.onnx")


def test_graphs_that_are_too_large_without_their_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stripped(written(network(), tmp_path / "net.onnx"))
    monkeypatch.setattr("cntk_model_onnx.wire._MOST_GRAPH", 1 << 20)
    assert read_model(path).tensors
    monkeypatch.setattr("cntk_model_onnx.wire._MOST_GRAPH", 100)
    with pytest.raises(ModelFormatError) as caught:
        read_model(path)
    assert str(caught.value) == f"'{path}' is damaged: its graph has more than 0 MB without the constants"


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    made = Sketch("float32")
    x = made.input("x", 4)
    first = made.op("RandomSample", made.parameter("chances", 4), name="drawn", attributes=_draws())
    second = made.op("Plus", made.op("Assign", made.parameter("kept", 4), made.parameter("new", 4), name="keep"), x)
    made.finish(None, first, second)
    made.network.roots["output"] = [first, second]
    with pytest.raises(CntkError) as caught:
        written(made.network, tmp_path / "net.onnx")
    assert str(caught.value) == (
        "RandomSample 'drawn' cannot be written as ONNX: ONNX draws classes with replacement only\n"
        "    Sample outside of the network.\n"
        "Assign 'keep' cannot be written as ONNX: a file of ONNX keeps no state\n"
        "    Remove the node: cntk edit.\n"
        "2 problems found"
    )
    assert not (tmp_path / "net.onnx").exists()


def _draws() -> object:
    op = core_ops().find("", "RandomSample")
    assert op is not None
    return op.attributes(num_samples=2)


def test_settings_that_there_are_not() -> None:
    with pytest.raises(UsageError) as caught:
        OnnxFormat().take_settings({"sequence": "one"})
    assert str(caught.value) == (
        "ONNX files have no setting 'sequence'; did you mean 'sequences'?\n"
        "    Settings: sequences, sparse, quantize, loops"
    )
    with pytest.raises(UsageError) as caught:
        OnnxFormat().take_settings({"quantize": "int4"})
    assert str(caught.value) == (
        "the setting quantize cannot be 'int4'; did you mean 'int8'?\n    It is one of none, int8, fp16."
    )


def test_operations_that_are_not_known_are_named_together(tmp_path: Path) -> None:
    helper = onnx.helper
    nodes = [helper.make_node("Det", ["x"], ["a"]), helper.make_node("Det", ["a"], ["b"]),
             helper.make_node("Odd", ["b"], ["y"], domain="mine")]  # fmt: skip
    info = [helper.make_tensor_value_info(name, 1, ["N", 2, 2]) for name in "xy"]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:])), path)
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}' has operations that cannot be read: Det (2 nodes); mine.Odd"


def test_nodes_that_cannot_be_read_are_named_together(tmp_path: Path) -> None:
    helper = onnx.helper
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], axis=0, name="one"),
        helper.make_node("Concat", ["x", "x"], ["y"], axis=0, name="two"),
    ]
    info = [helper.make_tensor_value_info(name, 1, ["N", 2]) for name in "xy"]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:])), path)
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    along = "it works along the samples of a minibatch"
    assert str(caught.value) == (
        f"'{path}' has nodes that cannot be read: Softmax 'one': {along}; Concat 'two': {along}"
    )


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(content)
    kind = rng.integers(4)
    place, length = int(rng.integers(len(found))), int(rng.integers(1, 40))
    if kind == 0:
        for _ in range(length):
            found[int(rng.integers(len(found)))] = int(rng.integers(256))
    elif kind == 1:
        del found[place : place + length]
    elif kind == 2:
        found[place:place] = rng.integers(256, size=length, dtype=np.uint8).tobytes()
    else:
        found[place : place + length] = found[:length]
    return bytes(found)


@pytest.mark.parametrize("source", ["ours", "lstm", "encoder.script", "mobilenet.dynamo"])
def test_mutated_files_give_typed_errors(source: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    if source == "ours":
        made = SEQUENCE_SAMPLES["lstm"]("float32")
        made.network.roots["output"] = made.roots
        content = written(made.network, path).read_bytes()
    else:
        content = (DATA / f"{source if '.' in source else source + '.dynamo'}.onnx").read_bytes()
    rng = np.random.default_rng(5)
    messages = []
    for _ in range(50):
        path.write_bytes(mutated(content, rng))
        messages += refusal(path)
    assert len(messages) > 5
    assert all("net.onnx" in message for message in messages)


def refusal(path: Path) -> list[str]:
    """What is said of a file that cannot be read."""
    try:
        load(path)
    except CntkError as error:
        return [str(error)]
    return []


def test_no_file_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="cannot be read: No such file or directory"):
        read_model(tmp_path / "none.onnx")


@pytest.mark.parametrize("chunk", [1, 3, 6, 7, 100])
@pytest.mark.parametrize("order", "<>")
def test_numbers_have_the_same_bytes_on_all_machines(chunk: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least first, whatever the machine has; those of the other order are turned piece by piece."""
    monkeypatch.setattr("cntk_model_onnx.wire._CHUNK", chunk)
    array = np.arange(12.0, dtype=f"{order}f4").reshape(3, 4)[:, :2]
    assert b"".join(_content(array)) == array.astype("<f4").tobytes()


@pytest.mark.parametrize("length", [100, 101])
def test_long_names_of_tensors_are_cut_in_messages(length: int, tmp_path: Path) -> None:
    tensor = onnx.TensorProto(name="w" * length, dims=[2], data_type=onnx.TensorProto.FLOAT, raw_data=b"1234")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor]))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelFormatError) as caught:
        read_model(tmp_path / "net.onnx")
    assert caught.value.message == (
        f"'{tmp_path / 'net.onnx'}' is damaged: the tensor '{'w' * 100}' has 4 bytes, not those of its dimensions"
    )
