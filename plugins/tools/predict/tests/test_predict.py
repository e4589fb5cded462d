"""The same values through every kind of file, from outside."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_tool_predict.verb import Predict

from cntk_core.api import Input, Network, Node, Parameter, core_ops, show
from cntk_core.api.builders import FREE, rename_nodes
from cntk_core.api.training import Model
from cntk_kit_recipes.cli import main
from cntk_testing import PackagingContract, VerbContract
from cntk_testing.inside import save_model
from cntk_testing.networks import Sketch, classifier
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

pytestmark = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")

SAMPLES = 23


def network() -> Network:
    """One input of 6, an output of 4; parameters have values already."""
    sample = classifier("float32")
    assert sample.criterion is not None
    sample.network.roots["output"] = [sample.criterion.inputs[1]]
    return sample.network


MODEL = network()
(OUTPUT,) = MODEL.roots["output"]
INPUT = MODEL.inputs[0]
SIZE = int(np.prod(INPUT.known_shape))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model(MODEL, "net.dnn")
    return tmp_path


def samples(count: int = SAMPLES) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((count, *INPUT.known_shape)).astype(np.float32)


def wanted() -> np.ndarray:
    found: np.ndarray = Model(network()).evaluate({INPUT.name: samples()}, [OUTPUT.name])[OUTPUT.name]
    return found.reshape(SAMPLES, -1)


def write(path: str) -> str:
    """Write the samples as a file of a kind."""
    import pyarrow as pa
    from pyarrow.csv import write_csv
    from pyarrow.parquet import write_table

    rows = samples().reshape(SAMPLES, -1)
    if path.endswith(".npy"):
        np.save(path, samples())
    elif path.endswith(".npz"):
        np.savez(path, **{INPUT.name.upper(): samples(), "more": rows[:, 0]})  # type: ignore[arg-type]
    elif path.endswith(".csv"):
        columns = {f"{INPUT.name}[{index}]": rows[:, index] for index in range(SIZE)}
        write_csv(pa.table({"name": ["x"] * SAMPLES, **columns}), path)
    elif path.endswith(".parquet"):
        write_table(pa.table({INPUT.name: list(rows)}), path)
    else:
        lines = (f"|{INPUT.name} {' '.join(map(repr, row))}\n" for row in rows.tolist())
        Path(path).write_text("".join(lines), encoding="utf-8")
    return path


def read(path: str) -> Any:
    from pyarrow.csv import read_csv
    from pyarrow.parquet import read_table

    if path.endswith(".npy"):
        return np.load(path).reshape(SAMPLES, -1)
    if path.endswith(".npz"):
        return np.load(path)[OUTPUT.name].reshape(SAMPLES, -1)
    table = read_csv(path) if path.endswith(".csv") else read_table(path)
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def predict(*arguments: str, status: int = 0) -> None:
    assert main(["predict", "net.dnn", "--node", OUTPUT.name, *arguments]) == status


class TestPredict(VerbContract):
    verb_class = Predict
    command_lines = (("net.dnn", "-i", "x.npy", "-o", "y.csv"), ("net.dnn", "-i", "x.csv", "-o", "y.npy", "--argmax"))

    def prepare(self, folder: Path) -> None:
        save_model(MODEL, folder / "net.dnn")
        write(str(folder / "x.npy"))
        write(str(folder / "x.csv"))


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-predict"
    kind = "verb"


@pytest.mark.parametrize("source", ["x.npy", "x.npz", "x.csv", "x.parquet", "x.ctf"])
@pytest.mark.parametrize(("target", "batch"), [("y.npy", 256), ("y.npz", 7), ("y.csv", 1), ("y.parquet", 22)])
def test_all_files(source: str, target: str, batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    predict("-i", write(source), "-o", target, "--batch", str(batch))
    np.testing.assert_allclose(read(target), wanted(), rtol=1e-5, atol=1e-6)
    assert capsys.readouterr().out == f"{target}: {SAMPLES} samples, {OUTPUT.name}\n"
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["net.dnn", *sorted([source, target])]


@pytest.mark.slow
def test_several_workers() -> None:
    predict("-i", write("x.npy"), "-o", "y.npy", "--batch", "3", "--workers", "2")
    np.testing.assert_allclose(read("y.npy"), wanted(), rtol=1e-5, atol=1e-6)


def test_classes() -> None:
    from pyarrow.csv import read_csv

    places = wanted().argmax(axis=1)
    predict("-i", write("x.npy"), "-o", "y.npy", "--argmax")
    assert np.load("y.npy").tolist() == places.tolist()
    names = [f"class {index}" for index in range(wanted().shape[1])]
    Path("names.txt").write_text("\n".join(names), encoding="utf-8")
    predict("-i", "x.npy", "-o", "y.csv", "--argmax", "--labels", "names.txt")
    assert read_csv("y.csv").column(OUTPUT.name).to_pylist() == [names[place] for place in places]


def test_columns_by_hand() -> None:
    import pyarrow as pa
    from pyarrow.csv import write_csv

    rows = samples().reshape(SAMPLES, -1)
    columns = {f"c{index}": rows[:, index] for index in reversed(range(SIZE))}
    write_csv(pa.table({**columns, "other": rows[:, 0]}), "x.csv")
    predict("-i", "x.csv", "-o", "y.npy", "--columns", f"{INPUT.name}={', '.join(f'c{i}' for i in range(SIZE))}")
    np.testing.assert_allclose(read("y.npy"), wanted(), rtol=1e-5, atol=1e-6)


def test_sequences() -> None:
    """Of the text format come sequences, with the lengths of each, whatever the batch."""
    from pyarrow.csv import read_csv

    sample = SEQUENCE_SAMPLES["lstm"]("float32")
    made = sample.network
    assert sample.criterion is not None
    node = sample.criterion.inputs[-1]
    inputs = [one for one in made.inputs if one in made.order([node])]
    save_model(made, "net.dnn")
    lengths = [3, 1, 4, 2, 5]
    random = np.random.default_rng(0)
    data = {
        one.name: [random.standard_normal((n, *one.known_shape)).astype(np.float32) for n in lengths] for one in inputs
    }
    lines = []
    for number, length in enumerate(lengths):
        for step in range(length):
            parts = (
                f"|{name} {' '.join(map(repr, rows[number][step].ravel().tolist()))}" for name, rows in data.items()
            )
            lines.append(f"{number} {' '.join(parts)}\n")
    Path("x.txt").write_text("".join(lines), encoding="utf-8")
    found = np.concatenate(Model(made).evaluate(data, [node.name])[node.name])
    for batch in ("1", "1000"):
        assert main(["predict", "net.dnn", "--node", node.name, "-i", "x.txt", "-o", "y.npz", "--batch", batch]) == 0
        written = np.load("y.npz")
        assert written["lengths"].tolist() == lengths
        np.testing.assert_allclose(written[node.name], found, rtol=1e-4, atol=1e-5)
        assert main(["predict", "net.dnn", "--node", node.name, "-i", "x.txt", "-o", "y.csv", "--batch", batch]) == 0
        table = read_csv("y.csv")
        assert table.column("sequence").to_pylist() == np.repeat(np.arange(5), lengths).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "x.npy", "-o", "x.npy"],
         "'x.npy' is a file that is read\n    Give the new one another name: it may be lost."),
        (["-i", "x.png", "-o", "y.npy"],
         "'x.png' cannot be read: its suffix says what it is\n    Known: .npy, .npz, .csv, .parquet, .ctf, .txt"),
        (["-i", "x.npy", "-o", "y.txt"],
         "'y.txt' cannot be written: its suffix says what it is\n    Known: .npy, .npz, .csv, .parquet"),
        (["-i", "x.npy", "-o", "y.csv", "--batch", "0"], "--batch must be at least 1, not 0"),
        (["-i", "x.npy", "-o", "y.csv", "--labels", "l.txt"], "--labels names the places of --argmax"),
        (["-i", "x.npy", "-o", "y.csv", "--columns", "a"],
         "'a' does not say which columns an input gets\n    Write --columns INPUT=A,B,C."),
        (["-i", "x.npy", "-o", "y.csv", "--columns", "a=b"], "--columns is about tables (.csv, .parquet)"),
        (["-i", "x.csv", "-o", "y.csv", "--columns", "nobody=b"], "x.csv: --columns: there is no input 'nobody'"),
        (["-i", "empty.npy", "-o", "y.csv"], "'empty.npy' has no samples"),
        (["-i", "text.csv", "-o", "y.csv", "--columns", f"{INPUT.name}=a"],
         "text.csv: the column 'a' has values of type string, no numbers"),
        (["-i", "gap.csv", "-o", "y.csv", "--columns", f"{INPUT.name}=a"],
         "gap.csv: the column 'a' has no value in row 2"),
        (["-i", "gap.csv", "-o", "y.csv", "--columns", f"{INPUT.name}=b"],
         f"gap.csv: the columns b have 1 numbers, the input '{INPUT.name}' needs {SIZE}"),
        (["-i", "no.parquet", "-o", "y.csv"], "'no.parquet' cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("x.npy")
    write("x.csv")
    np.save("empty.npy", samples()[:0])
    Path("text.csv").write_text("a\nx\n", encoding="utf-8")
    Path("gap.csv").write_text("a,b\n1,2\n,3\n", encoding="utf-8")
    before = {path.name for path in Path.cwd().iterdir()}
    assert main(["predict", "net.dnn", "--node", OUTPUT.name, *arguments]) != 0
    assert capsys.readouterr().err == f"error: {message}\n"
    assert {path.name for path in Path.cwd().iterdir()} == before, "something is left behind"


def test_images_of_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    """An array has a size; tables and text do not say it."""
    made = Sketch("float32")
    x = made.input("x", 2, FREE)
    root = made.op("ElementTimes", x, x, name="squares")
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    save_model(network, "any.dnn")
    values = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    np.save("x.npy", values)
    assert main(["predict", "any.dnn", "-i", "x.npy", "-o", "y.npy", "--batch", "2"]) == 0
    assert np.load("y.npy").tolist() == (values * values).tolist()
    for name in ("x.csv", "x.txt"):
        Path(name).write_text("x\n1\n", encoding="utf-8")
        capsys.readouterr()
        assert main(["predict", "any.dnn", "-i", name, "-o", "y.npy"]) == 1
        assert capsys.readouterr().err == (
            f"error: {name}: the input 'x' [? x 2] has no size of its own, and such a file says none\n"
            "    Write an array of samples of one size: .npy, .npz.\n"
        )


def test_nodes_with_odd_names(capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy's writer cannot name an array ``file``; and nothing takes the place of the lengths of sequences."""
    for name, status in (("file", 0), ("lengths", 2)):
        made = network()
        made.roots["output"][0].name = name
        rename_nodes(made, [(made.roots["output"][0], name)])
        save_model(made, "odd.dnn")
        assert main(["predict", "odd.dnn", "-i", write("x.npy"), "-o", "y.npz"]) == status
    np.testing.assert_allclose(np.load("y.npz")["file"].reshape(SAMPLES, -1), wanted(), rtol=1e-5, atol=1e-6)
    assert "error: a file of arrays has other things called lengths\n" in capsys.readouterr().err


def test_an_old_file_is_there_until_the_new_one_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Path("y.csv").write_text("old", encoding="utf-8")
    Path("x.ctf").write_text(f"|{INPUT.name} {' '.join(['1'] * SIZE)}\n" * 40 + f"|{INPUT.name} x\n", encoding="utf-8")
    predict("-i", "x.ctf", "-o", "y.csv", "--batch", "4", status=1)
    assert Path("y.csv").read_text(encoding="utf-8") == "old"
    assert "x.ctf:41:" in capsys.readouterr().err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["net.dnn", "x.ctf", "y.csv"]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([";".join("abcdef"), *["1;2;3;4;5;6"] * 3], 3, id="semicolons"),
        pytest.param(["\t".join("abcdef"), "1\t2\t3\t4\t5\t6"], 1, id="tabs"),
        pytest.param(["\ufeff" + ",".join("abcdef"), "1,2,3,4,5,6", ""], 1, id="a mark at the beginning"),
        pytest.param(['"a, b",b,c,d,e,f,"name"', '1,2,3,4,5,6,"Smith, J"'], 1, id="quotes"),
        pytest.param(["1.5,2,3,4,5,6", "1,2,3,4,5,6"], 2, id="no names"),
        pytest.param(["0,1,2,3,4,5", "1,2,3,4,5,6"], 1, id="numbers as names"),
        pytest.param([",".join("abcdef"), *["1,2,3,4,5,6"] * 150_000, "1,2,3,4,5,6.5"], 150_001, id="late fractions"),
    ],
)
def test_tables_of_strangers(lines: list[str], count: int) -> None:
    Path("x.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    predict("-i", "x.csv", "-o", "y.npy", "--batch", "100000")
    last = [float(number) for number in re.split("[,;\t]", [line for line in lines if line][-1])[:6]]
    found = np.load("y.npy")
    assert len(found) == count
    values = Model(network()).evaluate({INPUT.name: np.array([last])}, [OUTPUT.name])[OUTPUT.name]
    np.testing.assert_allclose(found[-1:], values, rtol=1e-5, atol=1e-6)


def tagger() -> Network:
    """Words go in, and each has a value; or frames of 2."""
    sample = SEQUENCE_SAMPLES["lstm"]("float32")
    assert sample.criterion is not None
    sample.network.roots["output"] = [sample.criterion.inputs[1]]
    return sample.network


def test_lists_are_sequences_where_something_looks_along_them(capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    made = tagger()
    (output,) = made.roots["output"]
    (node,) = (one for one in made.inputs if one in made.order([output]))
    save_model(made, "net.dnn")
    rows = [np.full((length, *node.known_shape), 0.25 * length) for length in (3, 1, 2)]
    write_table(pa.table({node.name: [one.tolist() for one in rows]}), "x.parquet")
    assert main(["predict", "net.dnn", "-i", "x.parquet", "-o", "y.npz", "--batch", "2"]) == 0
    found = np.load("y.npz")
    assert found["lengths"].tolist() == [3, 1, 2]
    wanted = np.concatenate(Model(made).evaluate({node.name: rows})[output.name])
    np.testing.assert_allclose(found[output.name], wanted, rtol=1e-5, atol=1e-6)
    capsys.readouterr()
    assert main(["predict", "net.dnn", "-i", "x.parquet", "-o", "y.npy"]) == 1
    assert capsys.readouterr().err == (
        "error: 'y.npy' holds an array, not sequences of several lengths\n    Write .npz, .csv or .parquet.\n"
    )
    np.save("x.npy", np.stack([rows[2], rows[2] + 1]))
    assert main(["predict", "net.dnn", "-i", "x.npy", "-o", "y.npy"]) == 0
    assert np.load("y.npy").shape == (2, 2, *output.known_shape)
    wrong = [[[0.5] * (int(np.prod(node.known_shape)) + 1)]]
    write_table(pa.table({node.name: wrong}), "x.parquet")
    capsys.readouterr()
    assert main(["predict", "net.dnn", "-i", "x.parquet", "-o", "y.npz"]) == 1
    told = f"x.parquet: the column '{node.name}' has no sequence of {show(node.known_shape)} in row 1"
    assert capsys.readouterr().err == f"error: {told}\n"


def test_lists_of_words_are_places_of_ones() -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    made = Network(np.float32)
    words = made.add(Input.make("words", (5,), sparse=True))
    table = made.add(Parameter.make("E", (5, 2), value=np.arange(10.0, dtype=np.float32).reshape(5, 2)))
    times = core_ops().find("", "Times")
    assert times is not None
    made.mark(made.add(Node("row", times, [table, words], times.attributes())), "output")
    made.infer()
    save_model(made, "net.dnn")
    write_table(pa.table({"words": [[3, 1], [], [4]]}), "x.parquet")
    assert main(["predict", "net.dnn", "-i", "x.parquet", "-o", "y.npz"]) == 0
    found = np.load("y.npz")
    assert found["lengths"].tolist() == [2, 0, 1]
    assert found["row"].tolist() == [[6, 7], [2, 3], [8, 9]]
