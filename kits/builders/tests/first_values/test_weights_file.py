"""Arrays by name in files of other programs, and first values from them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from cntk_core.errors import CntkError, DataError
from cntk_kit_builders.first_values.initializers import FromFile
from cntk_kit_builders.first_values.weights_file import open_weights
from cntk_testing.examples import examples

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
MATRIX = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
"""CNTK's [2 x 3]."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str) -> Path:
    """Write the matrix as W, and a vector as a/b, into a file of a kind."""
    arrays = {"W": MATRIX.astype(np.float32), "a/b": np.arange(2, dtype=np.int16)}
    if name.lower().endswith(".npz"):
        with Path(name).open("wb") as made:
            np.savez(made, **arrays)
    elif name.endswith(".json"):
        save_file({"W": arrays["W"]}, "part-1.safetensors")
        save_file({"a/b": arrays["a/b"]}, "part-2.safetensors")
        places = {"W": "part-1.safetensors", "a/b": "part-2.safetensors"}
        Path(name).write_text(json.dumps({"metadata": {}, "weight_map": places}), encoding="utf-8")
    else:
        save_file(arrays, name)
    return Path(name)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "W.NPZ", "model.safetensors.index.json"])
def test_all_kinds(name: str) -> None:
    path = write(name)
    file = open_weights(path)
    assert {name: entry.shape for name, entry in file.entries.items()} == {"W": (2, 3), "a/b": (2,)}
    assert file.read("W").dtype == F32
    np.testing.assert_array_equal(file.read("W"), MATRIX)
    assert (file.read("a/b").tolist(), file.read("a/b").dtype) == ([0.0, 1.0], F32)
    assert refused(lambda: file.read("w")).startswith(f"{path}: there is no array 'w'; did you mean 'W'?\n")
    # Memory order is the reverse of CNTK's.
    for dtype in (F32, F64):
        values = FromFile(Path(f"{name}/W"))((3, 2), dtype, 0)
        assert (values.tolist(), values.dtype, values.flags.c_contiguous) == (MATRIX.T.tolist(), dtype, True)
    assert FromFile(Path(f"{name}/W^T"))((2, 3), F32, 0).tolist() == MATRIX.tolist()
    assert FromFile(Path(f"{name}/a/b"))((1, 2), F32, 0).tolist() == [[0, 1]]


def test_one_array_needs_no_name() -> None:
    np.save("w.npy", MATRIX)
    assert FromFile(Path("w.npy"))((3, 2), F64, 0).tolist() == MATRIX.T.tolist()
    assert FromFile(Path("w.npy/^T"))((2, 3), F64, 0).tolist() == MATRIX.tolist()
    assert FromFile(Path("w.npy")).complete((0, 0)) == (3, 2)
    write("w.npz")
    assert refused(lambda: FromFile(Path("w.npz"))((3, 2), F64, 0)) == (
        "w.npz: the file has 2 arrays\n    Name one: w.npz/NAME. It has W, a/b."
    )


def test_shapes() -> None:
    write("w.npz")
    np.savez("k.npz", k=np.arange(24.0).reshape(2, 3, 4), v=np.arange(3.0))
    kernel = FromFile(Path("k.npz/k"))
    assert kernel((4, 3, 2), F64, 0).tolist() == np.arange(24.0).reshape(2, 3, 4).T.tolist()
    assert kernel((1, 4, 3, 2), F64, 0).shape == (1, 4, 3, 2)
    assert kernel.complete((0, 3, 0)) == (4, 3, 2)
    assert FromFile(Path("k.npz/v")).complete((0, 0)) == (1, 3)
    assert FromFile(Path("w.npz/W")).complete((0,)) == (3, 2)
    assert refused(lambda: kernel.complete((0, 5))) == "k.npz/k: the array is 2 x 3 x 4, the parameter has 2 dimensions"
    assert refused(lambda: FromFile(Path("w.npz/W"))((2, 3), F64, 0)) == (
        "w.npz/W: the array is 2 x 3, the parameter [3 x 2]\n"
        "    Its axes are the other way round: write ^T behind its name."
    )
    assert refused(lambda: FromFile(Path("w.npz/W"))((3, 3), F64, 0)) == (
        "w.npz/W: the array is 2 x 3, the parameter [3 x 3]"
    )


def test_types_that_numpy_lacks() -> None:
    """bfloat16 is the upper half of single precision."""
    values = np.array([1.5, -2.0, 3.0e38], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = json.dumps({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    Path("w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves)
    found = open_weights(Path("w.safetensors")).read("x")
    np.testing.assert_allclose(found, values, rtol=2**-7)
    assert found.dtype == F32


def test_what_is_refused() -> None:
    np.savez("o.npz", x=np.array([{}], dtype=object))
    np.savez("t.npz", x=np.array(["a"]))
    Path("i.safetensors.index.json").write_text('{"weight_map": {"x": "../x.safetensors"}}', encoding="utf-8")
    Path("j.safetensors.index.json").write_text("[]", encoding="utf-8")
    save_file({"x": MATRIX}, "x.safetensors")
    Path("k.safetensors.index.json").write_text('{"weight_map": {"y": "x.safetensors"}}', encoding="utf-8")
    said = [refused(lambda path=path: open_weights(Path(path)).read("x")) for path in (
        "o.npz", "t.npz", "i.safetensors.index.json", "j.safetensors.index.json", "k.safetensors.index.json", "no.npz",
        "w.txt",
    )]  # fmt: skip
    assert said == [
        "o.npz: the file holds Python objects, not numbers",
        "t.npz: the array 'x' has values of type <U1, which are no numbers",
        "i.safetensors.index.json: the file is damaged: '../x.safetensors' is not in the folder of the index",
        "j.safetensors.index.json: the file is damaged: it has no 'weight_map' of names and files",
        "k.safetensors.index.json: the file is damaged: 'x.safetensors' has no array 'y'",
        "cannot read the weights 'no.npz': No such file or directory",
        "'w.txt' is no file of arrays\n    Its name must end in .npy, .npz, .safetensors or .safetensors.index.json.",
    ]


def test_a_header_that_promises_more_than_there_is() -> None:
    np.save("w.npy", MATRIX)
    content = Path("w.npy").read_bytes().replace(b"(2, 3)", b"(9, 9)")
    with zipfile.ZipFile("w.npz", "w") as archive:
        archive.writestr("W.npy", content)
    assert refused(lambda: open_weights(Path("w.npz"))) == (
        "w.npz: the file is damaged: an array's header does not fit the size of its values"
    )


@examples(60)
@given(kind=st.sampled_from(["w.npz", "w.npy", "w.safetensors"]), place=st.floats(0, 1), new=st.integers(0, 255))
def test_damage_is_an_error_or_other_values(tmp_path_factory, kind: str, place: float, new: int) -> None:
    """Nothing but our own errors comes out of a file in which a byte was changed, or which ends there."""
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / kind
    if kind == "w.npy":
        np.save(path, MATRIX)
    elif kind == "w.npz":
        np.savez(path, W=MATRIX)
    else:
        save_file({"W": MATRIX}, path)
    content = bytearray(path.read_bytes())
    at = min(int(place * len(content)), len(content) - 1)
    content[at] = new
    told = []
    for damaged in (bytes(content), bytes(content[:at])):
        path.write_bytes(damaged)
        try:
            file = open_weights(path)
            for name in file.entries:
                file.read(name)
        except CntkError as error:
            told.append(str(error))
    assert all(kind in message for message in told)
