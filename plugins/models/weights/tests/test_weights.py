"""Weights out of a network and into one, in Python and by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_model_weights import load_weights, save_weights
from cntk_model_weights.model_format import WeightsFormat
from cntk_model_weights.verb import Weights
from safetensors.numpy import load_file, save_file

from cntk_core.api import DataError, Network, core_ops
from cntk_kit_recipes.cli import main
from cntk_testing import PackagingContract, VerbContract
from cntk_testing.contract import check_component
from cntk_testing.inside import load_model, save_model
from cntk_testing.networks import classifier


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def network(seed: int = 0) -> Network:
    made = classifier("float32").network
    for number, parameter in enumerate(made.parameters):
        random = np.random.default_rng(10 * seed + number)
        parameter.value = random.standard_normal(parameter.known_shape).astype(np.float32)
    return made


def values(made: Network) -> dict[str, list[float]]:
    return {parameter.name: parameter.value.tolist() for parameter in made.parameters if parameter.value is not None}


class TestVerb(VerbContract):
    verb_class = Weights
    command_lines = (
        ("net.dnn",),
        ("w.npz",),
        ("net.dnn", "-o", "new.safetensors", "--order", "cntk"),
        ("net.dnn", "--from", "w.npz", "-o", "new.dnn"),
    )

    def prepare(self, folder: Path) -> None:
        save_model(network(), folder / "net.dnn")
        save_weights(network(1), folder / "w.npz")


class TestPackaging(PackagingContract):
    distribution = "cntk-model-weights"
    kind = "model_format"


@pytest.mark.parametrize("order", ["numpy", "cntk"])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_out_and_in(order, suffix: str) -> None:
    old, new = network(), network(1)
    assert values(old) != values(new)
    names = save_weights(old, f"w{suffix}", order=order)
    assert names == [parameter.name for parameter in old.parameters]
    arrays = dict(np.load("w.npz")) if suffix == ".npz" else load_file("w.safetensors")
    for parameter in old.parameters:
        value = parameter.value
        np.testing.assert_array_equal(arrays[parameter.name], value.T if order == "cntk" else value)
    taken = load_weights(new, f"w{suffix}", order=order)
    assert (list(taken.nodes), list(taken.left), list(taken.kept)) == (names, [], [])
    assert values(old) == values(new)


def test_names_of_others() -> None:
    """As PyTorch's Linear has them: CNTK's order, without the axis of 1 of a bias, in double precision."""
    made, wanted = network(), network(1)
    first, second = (parameter.name for parameter in list(made.parameters)[:2])
    arrays = {f"layer.{name}": np.squeeze(wanted[name].value.T).astype(np.float64) for name in values(wanted)}
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, "w.safetensors")
    names = {name: f"layer.{name}" for name in values(made)}
    load_weights(made, "w.safetensors", order="cntk", names=names)
    assert values(made) == values(wanted)
    turned = {name: f"layer.{name}^T" for name in names}
    made = network()
    load_weights(made, "w.safetensors", names=turned)
    assert values(made) == values(wanted)
    with pytest.raises(DataError) as caught:
        load_weights(made, "w.safetensors", names={first: "layer.none", "nobody": "x"}, partial=True)
    assert str(caught.value).splitlines()[:3] == [
        "w.safetensors: the weights do not fit the network:",
        "    there is no parameter 'nobody'",
        f"    there is no array 'layer.none' for '{first}'",
    ]
    before = values(made)
    with pytest.raises(DataError):
        load_weights(made, "w.safetensors", names={first: f"layer.{second}"})
    assert values(made) == before


@pytest.mark.parametrize("order", ["numpy", "cntk"])
def test_shapes_that_do_not_fit_are_told_as_the_file_has_them(order) -> None:
    made = network()
    name = next(parameter.name for parameter in made.parameters if len(set(parameter.known_shape)) == 2)
    rows, columns = made[name].known_shape
    np.savez("w.npz", odd=np.zeros((7, 5)), turned=np.zeros((columns, rows) if order == "numpy" else (rows, columns)))
    needs = f"'{name}' needs " + (f"{rows} x {columns}" if order == "numpy" else f"{columns} x {rows}")
    with pytest.raises(DataError) as caught:
        load_weights(made, "w.npz", order=order, names={name: "odd"}, partial=True)
    assert str(caught.value).splitlines()[1] == f"    'odd' is 7 x 5, {needs}"
    with pytest.raises(DataError) as caught:
        load_weights(made, "w.npz", order=order, names={name: "turned"}, partial=True)
    assert str(caught.value).splitlines()[1].endswith(f", {needs} (the axes stand the other way round)")


def test_a_part() -> None:
    old, new = network(), network(1)
    first, *others = values(old)
    save_weights(old, "w.npz", nodes=[first])
    with pytest.raises(DataError, match=f"there is no array '{others[0]}' for '{others[0]}'"):
        load_weights(new, "w.npz")
    kept = values(new)
    taken = load_weights(new, "w.npz", partial=True)
    assert (list(taken.nodes), list(taken.kept)) == ([first], others)
    assert values(new) == kept | {first: values(old)[first]}


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    old = network()
    first, *others = values(old)
    save_model(old, "net.dnn")
    assert main(["weights", "net.dnn", "-o", "w.npz", "--nodes", first[0] + "*", "--nodes", "none*"]) == 0
    chosen = [name for name in values(old) if name.lower().startswith(first[0].lower())]
    assert capsys.readouterr().out == f"w.npz: {len(chosen)} array{'' if len(chosen) == 1 else 's'}\n"
    np.savez("one.npz", other=np.zeros_like(old[first].value))
    line = ["weights", "net.dnn", "--from", "one.npz", "--name", f"{first}=other", "--partial", "-o", "new.dnn"]
    assert main(line) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == ["new.dnn: 1 node with new weights", f"    not in the file, as before: {', '.join(others)}"]
    new = load_model("new.dnn", core_ops().find)
    assert not new[first].value.any()
    assert main(["weights", "one.npz"]) == 0
    shape = " x ".join(map(str, old[first].known_shape))
    assert capsys.readouterr().out == f"other  {shape}  float32\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--partial"], "--name and --partial say how the weights of --from are taken, and there is no --from"),
        (["--from", "w.npz"], "-o says where the model with its new weights goes"),
        (["--from", "w.npz", "-o", "w.npz"],
         "'w.npz' is a file that is read\n    Give the new one another name: it may be lost."),
        (["-o", "w.txt"], "'w.txt' is no file of weights\n    Its name must end in .npz or .safetensors."),
        (["-o", "x.npz", "--nodes", "nobody"], "no node called nobody has values"),
        (["--from", "w.npz", "-o", "n.dnn", "--name", "x"],
         "'x' does not say which array a node gets\n    Write --name NODE=ARRAY."),
        (["--from", "w.npz", "-o", "n.dnn", "--name", "x=a", "--name", "x=b"],
         "--name says twice which array 'x' gets"),
        (["--from", "w.npz", "-o", "n.dnn", "--nodes", "x"],
         "--nodes says which weights are written; --name and --partial say which are taken"),
        (["--from", "other.npz", "-o", "n.dnn", "--partial"],
         "no node of 'net.dnn' is called as an array of 'other.npz'"),
        (["-o", "net.dnn"],
         "'net.dnn' is a file that is read\n    Give the new one another name: it may be lost."),
        (["-o", "no/w.npz/x.npz"], "'no/w.npz/x.npz' cannot be written: File exists"),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(network(), "net.dnn")
    save_weights(network(), "w.npz")
    np.savez("other.npz", other=np.zeros(3))
    Path("no").mkdir()
    Path("no/w.npz").touch()
    assert main(["weights", "net.dnn", *arguments]) != 0
    assert capsys.readouterr().err == f"error: {message}\n"


def test_models_are_converted_to_weights_and_weights_are_no_models(capsys: pytest.CaptureFixture[str]) -> None:
    check_component(WeightsFormat)
    save_model(network(), "net.dnn")
    assert main(["convert", "net.dnn", "-o", "w.npz"]) == 0
    assert sorted(np.load("w.npz").files) == sorted(values(network()))
    save_weights(network(), "w.safetensors")
    capsys.readouterr()
    hint = "    'cntk weights NETWORK --from {} -o NEW' gives them to a network.\n"
    assert main(["dump", "w.npz"]) == 1
    assert capsys.readouterr().err == "error: 'w.npz' holds weights alone, no network\n" + hint.format("w.npz")
    assert main(["dump", "w.safetensors"]) == 1
    assert capsys.readouterr().err == (
        "error: 'w.safetensors' is not a model or checkpoint file of this program\n    If it holds weights alone, "
        "'cntk weights NETWORK --from w.safetensors -o NEW' gives them to a network.\n"
    )
    assert not WeightsFormat().recognizes(b"command = Train", Path("w.npz"))
    assert not WeightsFormat().recognizes(b"PK\x03\x04", Path("w.zip"))


@pytest.mark.parametrize("order", ["numpy", "cntk"])
def test_a_list_of_values(order: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = network()
    save_model(made, "net.dnn")
    assert main(["weights", "net.dnn", "--order", order]) == 0
    shapes = {name: np.shape(value) for name, value in values(made).items()}
    assert capsys.readouterr().out.splitlines() == [
        f"{name}  {' x '.join(map(str, shape[::-1] if order == 'cntk' else shape))}  float32"
        for name, shape in shapes.items()
    ]


def test_a_new_file_beside_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A file may be written anew that is not read, whichever is missing."""
    save_weights(network(), "w.npz")
    assert main(["weights", "none.dnn", "-o", "w.npz"]) != 0
    assert "'none.dnn'" in capsys.readouterr().err
    save_model(network(), "net.dnn")
    assert main(["weights", "net.dnn", "-o", "w.npz"]) == 0


@pytest.mark.parametrize(("count", "more"), [(1, 0), (10, 0), (11, 1), (13, 3)])
def test_arrays_that_no_node_takes_are_named(count: int, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_model_weights.exchange._MOST_TOLD", 10)
    made = network()
    others = [f"other{number:02}" for number in range(count)]
    np.savez("w.npz", **{name: made[name].value for name in values(made)}, **{name: np.zeros(1) for name in others})
    with pytest.raises(DataError) as caught:
        load_weights(made, "w.npz")
    listed = ", ".join(f"'{name}'" for name in others[:10]) + (f" and {more} more" if more else "")
    assert str(caught.value).splitlines()[1] == f"    no node takes {listed}"
    np.savez("w.npz", **{name: np.zeros(99) for name in values(made)})
    most = len(values(made))
    for told in (most - 1, most):
        monkeypatch.setattr("cntk_model_weights.exchange._MOST_TOLD", told)
        with pytest.raises(DataError) as caught:
            load_weights(made, "w.npz")
        assert ("    and 1 more" in str(caught.value).splitlines()) == (told < most)


def test_an_array_whose_name_says_that_it_is_turned() -> None:
    made, wanted = network(), network(1)
    np.savez("w.npz", **{f"{name}^T": wanted[name].value for name in values(made)})
    load_weights(made, "w.npz", names={name: f"{name}^T" for name in values(made)})
    assert values(made) == values(wanted)
