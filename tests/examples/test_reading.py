"""ReasoNet on text: examples/reading, with stories, and with files in the forms of CNN/Daily Mail and SQuAD 1.1."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

EVALUATED = r"Final Results: .*right = ([\d.]+) \* \d+; reading = ([\d.]+)"
SMALL = ["Train=[SGD=[maxEpochs=1]]", "dim=4", "hidden=3"]
CONTEXT = "Ann lives in New York. The dog of Ann is called Rex."


def prepared(script, *arguments: str) -> None:
    script(Path("prepare.py"))["main"](list(arguments))


def test_the_news_comes_to_the_answer(script) -> None:
    data = script(Path(__file__).parents[2] / "examples/reading/make_data.py")
    for seed in range(20):
        story = data["make_story"](random.Random(seed), seed % 2 + 1)
        sentences = " ".join(story.passage).split(" . ")
        told = dict(re.findall(r"(@\w+) (?:told|called|asked) (@\w+)", " . ".join(sentences)))
        here, hands = story.question[1], 0
        while here in told:
            here, hands = told[here], hands + 1
        assert (here, hands) == (story.answer, story.distance)
        assert re.search(rf"{here} (kept silent|told nobody)", " ".join(story.passage))


@pytest.mark.slow
@pytest.mark.parametrize(
    "reward",
    ["contrastive", "fixed", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("baseline", "sampled"))],
)
def test_it_runs_on_stories(reward, example, script, capsys: pytest.CaptureFixture[str]) -> None:
    example("reading", train=30, test=9)
    prepared(script, "cnn", "stories/training", "stories/test")
    assert "30 questions to train with, 9 to test with" in capsys.readouterr().out
    assert main(["configFile=reading.cntk", f"reward={reward}", "reads=2", *SMALL]) == 0
    found = re.search(EVALUATED, capsys.readouterr().err)
    assert found is not None
    assert 0 < float(found[1]) < 1
    assert float(found[2]) == 2 if reward == "fixed" else 1 < float(found[2]) < 2
    questions = [json.loads(line) for line in Path("test.json").read_text(encoding="utf-8").splitlines()]
    rows = script(Path("answers.py"))["by_hands"](Path(), Path(f"run/{reward}2"), questions)
    assert sorted(rows) == ["1", "2", "all"]
    for _, readings in rows.values():
        assert readings == pytest.approx(2.0, abs=1e-3) if reward == "fixed" else 1 < readings < 2


@pytest.mark.slow
def test_it_runs_on_pieces_of_passages(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    example("reading", train=3, test=3)
    write_squad(Path("train.json"), ["New York", "Rex"])
    write_squad(Path("dev.json"), ["Rex", "New York", "York"])
    prepared(script, "squad", "train.json", "dev.json")
    assert "2 questions to train with, 3 to test with" in capsys.readouterr().out
    assert "begin = [ dim = 1 ; format = dense ]" in Path("sizes.cntk").read_text(encoding="utf-8")
    marks = [re.findall(r"\|begin (\d) \|end (\d)", line) for line in Path("test.ctf").read_text("utf-8").splitlines()]
    begins = [int(begin) for found in marks for begin, _ in found]
    ends = [int(end) for found in marks for _, end in found]
    assert [place % 14 for place, mark in enumerate(begins) if mark] == [12, 3, 4]
    assert [place % 14 for place, mark in enumerate(ends) if mark] == [12, 4, 4]
    assert main(["configFile=reading.cntk", "reads=2", "Train=[SGD=[maxEpochs=60]]", "dim=6", "hidden=6"]) == 0
    script(Path("answers.py"))["main"](Path())
    assert "contrastive2   exact" in capsys.readouterr().out
    said = json.loads(Path("run/contrastive2/predictions.json").read_text(encoding="utf-8"))
    assert sorted(said) == ["q0", "q1", "q2"]
    assert all(each in CONTEXT for each in said.values())


def write_squad(path: Path, answers: list[str]) -> None:
    asked = {"Rex": "What is the dog called?"}
    questions = [
        {
            "id": f"q{number}",
            "question": asked.get(answer, "Where does Ann live?"),
            "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)}],
        }
        for number, answer in enumerate(answers)
    ]
    data = {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]}
    path.write_text(json.dumps(data), encoding="utf-8")


def test_answers_are_compared_as_the_data_do(script) -> None:
    answers = script(Path(__file__).parents[2] / "examples/reading/answers.py")
    assert answers["plain"]("The Dog, of Ann's!") == ["dog", "of", "anns"]
    assert answers["overlap"]("the dog of Ann", "a Dog") == pytest.approx(0.5)
    assert answers["overlap"]("cat", "dog") == 0.0
    assert answers["best_span"]([0.2, 0.5, 0.3], [0.6, 0.1, 0.3]) == (1, 2)
    assert answers["best_span"]([0.0, 0.0, 1.0], [1.0, 0.0, 0.1]) == (2, 2)


def test_files_of_other_kinds(tmp_path: Path, script) -> None:
    prepare = script(Path(__file__).parents[2] / "examples/reading/prepare.py")
    (tmp_path / "one.question").write_text("address\n\npassage", encoding="utf-8")
    (tmp_path / "one.json").write_text('{"dat": []}', encoding="utf-8")
    for arguments, message in (
        (["cnn", str(tmp_path / "none"), str(tmp_path)], "there are no .question files"),
        (["cnn", str(tmp_path), str(tmp_path)], "address, passage, question and answer are wanted"),
        (["squad", str(tmp_path / "one.json"), str(tmp_path)], "this is no file of SQuAD 1.1"),
    ):
        with pytest.raises(SystemExit) as caught:
            prepare["main"](arguments)
        assert message in str(caught.value)


def test_an_answer_that_the_passage_does_not_name_is_left_out(tmp_path: Path, script, capsys) -> None:
    prepare = script(Path(__file__).parents[2] / "examples/reading/prepare.py")
    texts = {"a": "@entity0 saw @entity2", "b": "@entity1 slept"}
    for name, text in texts.items():
        entities = "@entity0:Ann\n@entity1:Bob\n@entity2:Cat"
        parts = ("address", text, "who ? @placeholder", "@entity2", entities)
        (tmp_path / f"{name}.question").write_text("\n\n".join(parts), encoding="utf-8")
    prepare["main"](["cnn", str(tmp_path), str(tmp_path), "--into", str(tmp_path / "out"), "--words", "6"])
    assert capsys.readouterr().out == "1 questions to train with, 1 to test with, 6 words, 3 entities\n"
    words = (tmp_path / "out/words.txt").read_text(encoding="utf-8").split()
    assert words[:4] == ["@entity0", "@entity1", "@entity2", "<unknown>"]
    assert (tmp_path / "out/train.ctf").read_text(encoding="utf-8").startswith("0 |passage 0:1 |question ")
