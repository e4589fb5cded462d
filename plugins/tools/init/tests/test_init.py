"""What ``cntk init`` says, asks, writes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples
from cntk_tool_init.formats import speech
from cntk_tool_init.found import Wishes
from cntk_tool_init.sniff import look

from cntk_kit_recipes.cli import main

REFUSED = 1
TOO_LITTLE = "a table to learn from needs two rows and two columns"


def init(*words: str, status: int = 0) -> None:
    assert main(["init", *words]) == status


def error(capsys: pytest.CaptureFixture[str], *words: str, status: int = REFUSED) -> str:
    init(*words, status=status)
    return capsys.readouterr().err


def text(name: str, content: str) -> str:
    Path(name).write_text(content, encoding="utf-8")
    return name


def test_nothing_is_overwritten_unless_it_is_asked_for(tmp_path, capsys):
    data = str(samples.ctf(tmp_path)[0])
    init("new", "--data", data, "--yes")
    Path("new/recipe.cntk").write_text("mine", encoding="utf-8")
    assert error(capsys, "new", "--data", data, "--yes", status=2) == (
        "error: 'new' has recipe.cntk, check.py, README.md, train.ctf, heldout.ctf already\n"
        "    Give another folder, or replace them with --force.\n"
    )
    assert Path("new/recipe.cntk").read_text(encoding="utf-8") == "mine"
    init("new", "--data", data, "--yes", "--force")
    assert "command = Train:Test" in Path("new/recipe.cntk").read_text(encoding="utf-8")


def test_data_are_never_replaced_by_a_part_of_themselves(capsys):
    Path("new").mkdir()
    rows = "".join(f"|label {n % 2}:1 |x {n} 1\n" for n in range(20))
    text("new/train.ctf", rows)
    said = error(capsys, "new", "--data", "new/train.ctf", "--yes", "--force", status=2)
    assert said.startswith("error: 'new/train.ctf' would be overwritten by a part of itself")
    assert Path("new/train.ctf").read_text(encoding="utf-8") == rows
    init("new", "--data", "new/train.ctf", "--yes", "--held-out", "0")
    assert 'file = "train.ctf"' in Path("new/recipe.cntk").read_text(encoding="utf-8")


def test_all_samples_are_in_one_part(tmp_path):
    data = samples.ctf_tags(tmp_path)[0]
    init("new", "--data", str(data), "--yes", "--held-out", "0.25")
    parts = [Path("new", name).read_text(encoding="utf-8").splitlines() for name in ("train.ctf", "heldout.ctf")]
    assert sorted(parts[0] + parts[1]) == sorted(data.read_text(encoding="utf-8").splitlines())
    ids = [{line.split()[0] for line in part} for part in parts]
    assert not ids[0] & ids[1]
    assert len(ids[1]) == 15


@pytest.mark.parametrize(("rows", "held_out"), [(3, 1), (1, 0)])
def test_of_few_samples_one_is_held_out(rows, held_out):
    text("rows.ctf", "".join(f"|label {row % 2}:1 1:0 |x {row}\n" for row in range(rows)))
    init("new", "--data", "rows.ctf", "--yes")
    parts = [path for path in sorted(Path("new").glob("*.ctf")) if path.name == "heldout.ctf"]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in parts) == held_out
    assert ("cvReader" in Path("new/recipe.cntk").read_text(encoding="utf-8")) == bool(held_out)


def test_data_in_two_files(tmp_path):
    data = samples.ctf(tmp_path)[0]
    other = Path(text("other.ctf", "|class 1:1 |x 1 2 3 4\n"))
    init("new", "--data", str(data), "--held-out", str(other), "--yes")
    recipe = Path("new/recipe.cntk").read_text(encoding="utf-8")
    assert sorted(path.name for path in Path("new").iterdir()) == ["README.md", "check.py", "recipe.cntk"]
    assert recipe.count('file = "../rows.ctf"') == 1
    assert recipe.count('file = "../other.ctf"') == 2


def test_without_held_out_data_there_is_no_test(tmp_path):
    init("new", "--data", str(samples.ctf(tmp_path)[0]), "--yes", "--held-out", "0")
    recipe = Path("new/recipe.cntk").read_text(encoding="utf-8")
    assert "command = Train\n" in recipe
    assert not [word for word in ("cvReader", "earlyStopping", "Test", "cntk test") if word in recipe]


def test_another_column_is_learned(tmp_path):
    init("new", "--data", str(samples.table(tmp_path)[0]), "--yes", "--target", "width")
    recipe = Path("new/recipe.cntk").read_text(encoding="utf-8")
    assert "SquareError" in recipe
    features = Path("new/features.txt").read_text(encoding="utf-8").split("\n")
    assert features == [
        "length",
        "depth",
        "site=a, b",
        "site=shore",
        *(f"species={c}" for c in ("blue", "green", "red")),
        "",
    ]
    rows = sum(len(Path("new", name).read_text(encoding="utf-8").splitlines()) for name in ("train.ctf", "heldout.ctf"))
    assert rows == samples.ROWS - 1  # one has no width


def test_what_is_odd_is_said(tmp_path, capsys):
    init("--data", str(samples.table(tmp_path)[0]), "--look")
    said = capsys.readouterr().out
    assert "note: the column number counts the rows, and is left out" in said
    assert "missing names none: width" in said
    assert not Path("recipe").exists()


def test_numbers_are_found_in_their_own_unit(tmp_path):
    samples.ctf_numbers(tmp_path)
    values = [float(line.split()[1]) for line in Path("numbers.ctf").read_text(encoding="utf-8").splitlines()]
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    init("new", "--data", "numbers.ctf", "--yes")
    recipe = Path("new/recipe.cntk").read_text(encoding="utf-8")
    assert f"found = z .* Constant ({deviation:.6g}) + Constant ({mean:.6g})" in recipe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "error: there are no data\n    Say where they are: cntk init FOLDER --data FILE\n"),
        (("--data", "rows.ctf", "--task", "clasify"), "error: there is no task 'clasify'; did you mean 'classify'?\n"),
        (("--data", "rows.ctf", "--task", "tag"), "error: these data are not for the task 'tag': CNTK text\n"),
        (("--data", "rows.ctf", "--held-out", "0.9"), "error: --held-out: 0.9 is not between 0 and 0.5\n"),
        (("--data", "rows.ctf", "--held-out", "x.ctf"), "error: --held-out: 'x.ctf' is no share and no file\n"),
    ],
)
def test_command_lines_that_are_wrong(words, message, tmp_path, capsys):
    samples.ctf(tmp_path)
    assert error(capsys, *words, "--yes", status=2).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("|x 1 2\n|x 2 3\n", "error: data: there is nothing to learn from but 'x'\n"),
        ("|x 1 b |y 1:1\n", "error: data:1: the stream 'x' has a value that is no number: 1 b\n"),
        ("a,b\n1,2\n2,1\n3\n", "error: data: row 4 has 1 column, and the first one 2\n"),
        ("\0\1\2", "error: data: this is nothing that is known\n"),
        ("", "error: data: this is nothing that is known\n"),
        ("one sentence\n", "error: data: a text for a language model needs sentences, one in each line\n"),
        ("#!MLF!#\n", "error: data: a list of HTK features is missing\n"),
        (
            "a,b\n1,2\n2,1\n3,7\n",
            f"error: data: {TOO_LITTLE}; a counts the rows\n",
        ),
        ("x\tb\n1\t\n", f"error: data: {TOO_LITTLE}; x has one value\n"),
    ],
)
def test_data_that_are_wrong(content, message, capsys):
    text("data", content)
    said = error(capsys, "--data", "data", "--yes")
    assert said.startswith(message)
    assert not Path("recipe").exists()


def test_files_that_are_not_there(capsys):
    assert error(capsys, "--data", "none.csv", "--yes").startswith("error: 'none.csv' is not there")


def test_a_table_whose_target_is_not_there(tmp_path, capsys):
    samples.table(tmp_path)
    said = error(capsys, "--data", "flowers.csv", "--target", "specis", "--yes")
    assert said == "error: flowers.csv: there is no column 'specis'; did you mean 'species'?\n"


def test_a_folder_with_one_thing_in_it_is_taken_as_that(tmp_path):
    (tmp_path / "data").mkdir()
    samples.htk(tmp_path / "data")
    (tmp_path / "data/README").write_text("Features of speakers.\nAnd their labels.\n", encoding="utf-8")
    assert isinstance(look([tmp_path / "data"], Wishes()), speech.Htk)


def test_a_folder_with_several_things_asks_for_one(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    samples.table(tmp_path / "data")
    samples.ctf(tmp_path / "data")
    said = error(capsys, "--data", "data", "--yes")
    assert "it is not clear which one is meant: flowers.csv (a table), rows.ctf (CNTK text)" in said


def test_pictures_stay_where_they_are(tmp_path):
    pytest.importorskip("PIL")
    init("new", "--data", str(samples.pictures(tmp_path)[0]), "--yes")
    lines = [
        Path("new", name).read_text(encoding="utf-8").splitlines() for name in ("train_map.txt", "heldout_map.txt")
    ]
    assert [len(part) for part in lines] == [54, 6]
    assert lines[0][0] == ".../../photos/dark/0.png\t0"
    assert [line[-1] for line in lines[1]] == list("000111")


def test_a_run_that_fails_leaves_nothing_behind(capsys):
    text("rows.ctf", "".join(f"|label 0:1 |x {n}\n" for n in range(20)))
    said = error(capsys, "new", "--data", "rows.ctf", "--yes")
    assert "'rows.ctf' has one class, so there is nothing to learn" in said
    assert list(Path("new").iterdir()) == []


def test_questions_on_a_terminal(tmp_path, monkeypatch, capsys):
    samples.table(tmp_path)
    answers = iter(["flowers.csv", "7", "length", "mine"])
    monkeypatch.setattr("cntk_tool_init.init.can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    init()
    said = capsys.readouterr().out
    assert "What is to be learned?\n  1  species\n  2  number\n  3  length\n" in said
    assert "'7' is none of them" in said
    assert "found = z" in Path("mine/recipe.cntk").read_text(encoding="utf-8")


def test_an_answer_that_is_the_end(monkeypatch, capsys):
    def ended(question: str) -> str:
        raise EOFError

    monkeypatch.setattr("cntk_tool_init.init.can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", ended)
    assert error(capsys, status=2).startswith("error: the input has ended\n")
