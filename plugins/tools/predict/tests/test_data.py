"""Files with data that do not fit, several inputs, and what is written of sequences with names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cntk_tool_predict.evaluating import Evaluator, Values
from cntk_tool_predict.predict import _columns, _progress
from cntk_tool_predict.sinks import writer_of

from cntk_core.api import CntkError, DataError, Input, Network
from cntk_core.api.training import Model
from cntk_kit_recipes.cli import main
from cntk_testing.inside import save_model
from cntk_testing.networks import Sketch

pytestmark = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


def network() -> Network:
    """``y = a + b`` of two elements, and ``s`` of one."""
    made = Sketch("float32")
    a, b = made.input("a", 2), made.input("b", 2)
    y = made.op("Plus", a, b, name="y")
    s = made.op("SumElements", a, name="all")
    found = made.finish(None, y, s).network
    found.roots["output"] = [y]
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model(network(), "net.dnn")
    return tmp_path


def predict(*arguments: str) -> int:
    return main(["predict", "net.dnn", *arguments])


ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_arrays_of_several_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("x.npz", A=ROWS, b=10 * ROWS, other=np.zeros(3))
    assert predict("-i", "x.npz", "-o", "y.npy", "--batch", "3") == 0
    assert np.load("y.npy").tolist() == (11 * ROWS).tolist()
    assert capsys.readouterr().out == "y.npy: 4 samples, y\n"
    np.savez("x.npz", a=ROWS[:1], b=ROWS[:1])
    assert predict("-i", "x.npz", "-o", "y.npy") == 0
    assert capsys.readouterr().out == "y.npy: 1 sample, y\n"


def test_tables_of_several_inputs() -> None:
    lines = ["a[0],b[0],c,b[1],a[1],d", *(f"{x},{10 * x},9,{10 * y},{y},8" for x, y in ROWS.tolist())]
    Path("x.csv").write_text("\n".join(lines), encoding="utf-8")
    assert predict("-i", "x.csv", "-o", "y.npy") == 0
    assert np.load("y.npy").tolist() == (11 * ROWS).tolist()
    assert predict("-i", "x.csv", "-o", "y.npy", "--columns", "B=c,d") == 0
    assert np.load("y.npy").tolist() == (ROWS + np.array([9, 8])).tolist()


def test_several_nodes_of_a_table() -> None:
    np.savez("x.npz", a=ROWS, b=ROWS)
    assert predict("-i", "x.npz", "-o", "y.csv", "--node", "y", "--node", "b", "--argmax") == 0
    assert Path("y.csv").read_text(encoding="utf-8").splitlines() == ['"y","b"', *["1,1"] * 4]
    assert predict("-i", "x.npz", "-o", "y.csv", "--node", "y", "--node", "b", "--batch", "3") == 0
    head, first, *_ = Path("y.csv").read_text(encoding="utf-8").splitlines()
    assert (head, first) == ('"y[0]","y[1]","b[0]","b[1]"', "0,2,0,1")


def parquet(**columns: Any) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    write_table(pa.table(columns), "x.parquet")


GOOD = [[1.0, 2.0]] * 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": GOOD, "b": [[1.0, 2.0], [1.0, 2.0], None]}, "the column 'b' has no value in row 3"),
        ({"a": GOOD, "b": [[1.0, 2.0], [1.0, None], [1.0, 2.0]]}, "the column 'b' has no value in row 2"),
        ({"a": GOOD, "b": [[1.0, 2.0], [1.0, 2.0], [1.0]]}, "the lists of the column 'b' have different lengths"),
        ({"a": GOOD, "b": [[1.0, 2.0, 3.0]] * 3}, "the columns b have 3 numbers, the input 'b' needs 2"),
        ({"a": GOOD, "b": ["x", "y", "z"]}, "the column 'b' has values of type string, no numbers"),
        (
            {"a": GOOD, "c": GOOD},
            "no columns are called as the input 'b' of 2 elements\n    Say --columns b=A,B,C. The columns are a, c.",
        ),
        (
            {"p": [1.0] * 3, "q": [2.0] * 3},
            "no columns are called as the input 'a' of 2 elements\n    Say --columns a=A,B,C. The columns are p, q.",
        ),
        ({"a": GOOD, "b[0]": [1.0] * 3}, "there is no column 'b[1]'; did you mean 'b[0]'?"),
    ],
)
def test_tables_that_do_not_fit(
    columns: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    parquet(**columns)
    batch = "256" if "different lengths" in message else "2"  # of two rows each has one length
    assert predict("-i", "x.parquet", "-o", "y.npy", "--batch", batch) == 1
    assert capsys.readouterr().err == f"error: x.parquet: {message}\n"
    assert not Path("y.npy").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": ROWS}, "x.npz: there are no arrays for the inputs b\n    It has a."),
        ({}, "x.npz: there are no arrays for the inputs a, b\n    It has none."),
        ({"a": ROWS, "b": ROWS[:3]}, "x.npz: the arrays have different numbers of samples: a 4, b 3"),
        ({"a": ROWS, "b": np.array(3.0)}, "x.npz: 'b' is no array of samples of numbers"),
        ({"a": ROWS, "b": np.array(["x"] * 4)}, "x.npz: 'b' is no array of samples of numbers"),
    ],
)
def test_arrays_that_do_not_fit(
    arrays: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    np.savez("x.npz", **arrays)
    assert predict("-i", "x.npz", "-o", "y.npy") == 1
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "x.npy", "-o", "y.csv"],
         "'x.npy' is one array, and the inputs are a, b\n"
         "    Write an .npz file with an array for each: numpy.savez(FILE, NAME=ARRAY, ...)."),
        (["-i", "x.npz", "-o", "y.npy", "--node", "y", "--node", "a"],
         "'y.npy' holds one array, and there are y, a\n    Write .npz, or say --node NAME."),
        (["-i", "x.npz", "-o", "y.npy", "--workers", "0"], "--workers must be at least 1, not 0"),
        (["-i", "x.npz", "-o", "y.npy", "--argmax", "--labels", "two.txt"],
         "--labels gives texts, which tables hold (.csv, .parquet)"),
        (["-i", "x.npz", "-o", "y.csv", "--argmax", "--labels", "names.txt"], "'names.txt' has 3 names, 'y' 2 places"),
        (["-i", "x.npz", "-o", "y.csv", "--argmax", "--labels", "none.txt"],
         "the labels 'none.txt' cannot be read: No such file or directory"),
        (["-i", "x.npz", "-o", "net.dnn"],
         "'net.dnn' is a file that is read\n    Give the new one another name: it may be lost."),
        (["-i", "x.npz", "-o", "y.csv", "--node", "all"],
         "'all' has no value for each of the 4 samples, but one of all"),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", ROWS)
    np.savez("x.npz", a=ROWS, b=ROWS)
    Path("names.txt").write_text("x\ny\nz\n", encoding="utf-8")
    Path("two.txt").write_text("x\ny\n", encoding="utf-8")
    assert predict(*arguments) != 0
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not Path("y.csv").exists()


def test_columns_of_inputs() -> None:
    assert _columns(["a= x , y", "b=z"]) == {"a": ["x", "y"], "b": ["z"]}
    for wrong in ("a", "=x", "a=", ""):
        with pytest.raises(CntkError, match=r"does not say which columns an input gets"):
            _columns([wrong])


BATCHES = [
    [Values(np.arange(3.0)[:, None], [2, 1], ["first", "second"])],
    [Values(np.array([[7.0]]), [1], ["third"])],
]


def written(name: str, batches: Any, *nodes: Any) -> Path:
    path, given = Path(name), nodes or (Input.make("y", (1,)),)
    path.write_bytes(b"".join(map(bytes, writer_of(path, given, [])(batches, path, given, []))))
    return path


def test_sequences_keep_their_names() -> None:
    with np.load(written("y.npz", BATCHES)) as file:
        found = {name: file[name].tolist() for name in file.files}
    assert found == {"y": [[0], [1], [2], [7]], "lengths": [2, 1, 1], "keys": ["first", "second", "third"]}
    lines = written("y.csv", BATCHES).read_text(encoding="utf-8").splitlines()
    assert lines == ['"sequence","y"', '"first",0', '"first",1', '"second",2', '"third",7']
    nameless = [[Values(one.rows, one.lengths)] for (one,) in BATCHES]
    lines = written("y.csv", nameless).read_text(encoding="utf-8").splitlines()
    assert lines == ['"sequence","y"', "0,0", "0,1", "1,2", "2,7"]


def test_an_array_of_sequences() -> None:
    alike = [[Values(np.arange(12.0).reshape(4, 3), [2, 2])], [Values(np.arange(6.0).reshape(2, 3), [2])]]
    assert np.load(written("y.npy", alike)).shape == (3, 2, 3)
    with pytest.raises(DataError, match=r"'y.npy' holds an array, not sequences of several lengths"):
        written("y.npy", BATCHES)
    with pytest.raises(DataError, match=r"'y.npy' holds an array, not sequences of several lengths"):
        written("y.npy", [alike[0], [Values(np.zeros((2, 3)))]])


@pytest.mark.parametrize(("names", "said"), [(["keys"], "keys"), (["keys", "lengths"], "lengths and keys")])
def test_names_that_a_file_of_arrays_has_itself(names: list[str], said: str) -> None:
    nodes = [Input.make(name, (1,)) for name in names]
    with pytest.raises(CntkError) as caught:
        writer_of(Path("y.npz"), nodes, [])
    assert str(caught.value) == f"a file of arrays has other things called {said}\n    Write a table, or .npy."
    assert writer_of(Path("Y.CSV"), nodes, [])


def test_sequences_of_one_frame_are_samples() -> None:
    evaluate = Evaluator(Model(network()), ["y"])
    rows = [np.ones((1, 2)), np.zeros((1, 2))]
    (found,) = evaluate({"a": rows, "b": rows})
    assert (found.lengths, found.rows.tolist()) == (None, [[2, 2], [0, 0]])
    rows[1] = np.zeros((2, 2))
    (found,) = evaluate({"a": rows, "b": rows})
    assert (found.lengths, found.rows.shape) == ([1, 2], (3, 2))
    with pytest.raises(DataError, match=r"^'all' has no value for each of the 2 samples, but one of all$"):
        Evaluator(Model(network()), ["all"])({"a": np.ones((2, 2))})


@pytest.mark.parametrize("count", [3, 5])
def test_a_node_with_other_samples(count: int) -> None:
    evaluate = Evaluator(Model(network()), ["y"])
    with pytest.raises(DataError, match=rf"^'y' has no value for each of the 4 samples, but {count}$"):
        evaluate._of_samples(evaluate.nodes[0], np.zeros((count, 2)), 4)


@pytest.mark.parametrize("shown", [True, False])
def test_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shown: bool) -> None:
    import sys

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: shown, write=sys.stderr.write, flush=list))
    with _progress(10) as tell:
        tell(4)
    assert ("4/10" in capsys.readouterr().err) == shown
