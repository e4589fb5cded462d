"""``cntk demo`` and the examples, as somebody runs them."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import cntk_tool_demo
import cntk_tool_demo.data as demo
import pytest
from cntk_tool_demo import NEXT
from cntk_tool_demo.curve import draw_curve
from cntk_tool_demo.listener import Recorder

from cntk_core.api import EpochSummary, Job, Network
from cntk_kit_recipes.cli import main

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_demo(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["demo", "--folder", "digits"]) == 0
    out = capsys.readouterr().out
    found = re.search(r"^(\d+) of 450 held-out digits are right: (\d+\.\d) %", out, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 0.96 * 450
    assert 10 < out.count("\n  epoch ") < 30
    ends = re.search(r"^  the end: 'CrossEntropyWithSoftmax' has not improved since epoch (\d+)$", out, re.MULTILINE)
    assert ends is not None, out
    assert int(ends[1]) + 5 == out.count("\n  epoch ")
    assert Path.cwd() == here
    assert (here / "digits/learning-curve.png").read_bytes().startswith(b"\x89PNG")
    for name in ("learning-curve.svg", "network.svg"):
        assert ET.parse(here / "digits" / name).getroot().tag.endswith("svg")
    assert "__COMPLETED__" in (here / "digits/run/log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_demo_keeps_a_recipe_that_was_changed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path(demo.__file__).with_name("digits.cntk").read_text(encoding="utf-8")
    recipe = here / "demo/digits.cntk"
    recipe.parent.mkdir()
    recipe.write_text(original.replace("maxEpochs = 30", "maxEpochs = 1"), encoding="utf-8")
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert f"  {Path('demo/digits.cntk')} was changed and stays as it is" in out
    assert out.count("\n  epoch ") == 1
    monkeypatch.chdir(here / "demo")
    assert main(["configFile=digits.cntk", "command=Test"]) == 0


def test_demo_without_its_libraries(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == ("error: the demo needs matplotlib\n    pip install cntk-tool-demo\n")
    assert list(here.iterdir()) == []


def test_demo_where_nothing_can_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (here / "file").write_text("", encoding="utf-8")
    assert main(["demo", "--folder", "file/demo"]) == 1
    assert capsys.readouterr().err == (
        "error: the folder 'file/demo' cannot be written: Not a directory\n"
        "    Give another one: cntk demo --folder DIR\n"
    )


def test_what_to_try_next_stands_on_its_page_whose_commands_are_run_by_the_tests() -> None:
    page = Path(demo.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert [command for command, _ in NEXT if f"\n{command}\n" not in page] == []


@pytest.mark.skipif(os.name == "nt", reason="paths of a POSIX shell")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("here/env/bin", []),
        ("elsewhere", [". env/bin/activate"]),
        ("other/bin", [". env/bin/activate"]),
    ],
)
def test_the_terminal_is_told_to_find_the_command(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    said: list[str],
) -> None:
    for folder in ("here/env/bin", "other/bin"):
        (here / folder).mkdir(parents=True)
        (here / folder / "activate").touch()
        (here / folder / "cntk").touch(mode=0o755)
    monkeypatch.chdir(here / "here")
    monkeypatch.setattr("sys.executable", str(here / "here/env/bin/python"))
    monkeypatch.setenv("PATH", str(here / path))
    cntk_tool_demo._summary(Path("demo"), 3, 4, 5.0)
    lines = capsys.readouterr().out.splitlines()
    assert "3 of 4 held-out digits are right: 75.0 %  (5 seconds)" in lines
    begin = lines.index("What to try next:") + 1
    shown = [line.strip().split("  ")[0] for line in lines[begin:]]
    assert shown == [*said, "cd demo", *(command for command, _ in NEXT)]
    monkeypatch.chdir(here / "other")
    monkeypatch.setenv("PATH", "")
    cntk_tool_demo._summary(Path("demo"), 3, 4, 5.0)
    assert f"  . {here}/here/env/bin/activate\n" in capsys.readouterr().out


def test_without_an_environment_nothing_is_said_of_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(here / "python"))
    monkeypatch.setenv("PATH", "")
    assert cntk_tool_demo._activation() == ""


def test_labels_are_read_back(here: Path) -> None:
    (here / "t.ctf").write_text("|labels 7:1 |features 0 1\n|labels 0:1 |features 1 0\n", encoding="utf-8")
    assert demo.labels_of(here / "t.ctf") == [7, 0]


@pytest.mark.thorough  # it is trained for long; README.md trains the digits in tests/docs
@pytest.mark.slow
def test_two_spirals(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "two-spirals"
    shutil.copytree(EXAMPLES / "two-spirals", folder)
    runpy.run_path(str(folder / "make_data.py"), run_name="__main__")
    monkeypatch.chdir(folder)
    assert main(["configFile=spirals.cntk"]) == 0
    final = re.search(r"Final Results: Minibatch\[1-1\]: errs = +([\d.]+)%", capsys.readouterr().err)
    assert final is not None
    assert float(final[1]) < 5
    assert len((folder / "run/out.p").read_text(encoding="utf-8").splitlines()) == 1000
    assert "V=LearnableParameter [2,64]" in (folder / "run/parameters.txt").read_text(encoding="utf-8")


def summaries(validation: bool) -> list[EpochSummary]:
    return [
        EpochSummary(
            epoch, 8, 2, {"ce": 0.5 - epoch / 10, "errs": 0.25}, {"ce": 0.75, "errs": 0.125} if validation else {}
        )
        for epoch in range(3)
    ]


@pytest.mark.parametrize("validation", [True, False])
def test_curves_say_how_they_end(here: Path, validation: bool) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_curve(summaries(validation), [here / "a.svg", here / "b.svg"])
    texts = [one.text for one in ET.parse(here / "a.svg").iter() if one.tag.endswith("text") and one.text]
    assert {"cross entropy per digit", "wrong digits, %", "epoch"} <= set(texts)
    held_out = [f"held out: {end} at the end" for end in ("0.750", "12.5 %")] if validation else []
    expected = ["training: 0.300 at the end", *held_out[:1], "training: 25.0 % at the end", *held_out[1:]]
    assert [text for text in texts if text.endswith(" at the end")] == expected
    assert (here / "b.svg").exists()


def test_epochs_are_told_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    network = Network()
    for tell in (True, False):
        recorder = Recorder(tell=tell)
        recorder.cntk_job_begin(Job("Test", "test", network=Network(), epochs=3))
        assert recorder.network is None
        recorder.cntk_job_begin(job := Job("Train", "train", network=network, epochs=3))
        first, *_ = summaries(validation=True)
        _, second, _ = summaries(validation=False)
        for summary in (first, second):
            recorder.cntk_epoch_end(job, summary)
        assert recorder.epochs == [first, second]
        assert recorder.network is network
        out = capsys.readouterr().out
        assert out == (
            "  epoch  1 of 3: loss 0.5000  wrong 25.00 %   held out: loss 0.7500  wrong 12.50 %\n"
            "  epoch  2 of 3: loss 0.4000  wrong 25.00 %\n"
            if tell
            else ""
        )


def test_a_folder_in_a_folder_again_and_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be there already, or those above it not yet; a recipe that was changed stays."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("cntk_tool_demo.data.write_digits", lambda folder: (3, 2))
    monkeypatch.setattr("cntk_tool_demo.run_recipe", lambda *_, **__: (here / "a/b/digits.cntk").write_text("mine"))
    monkeypatch.setattr("cntk_tool_demo._draw", lambda recorder: None)
    monkeypatch.setattr("cntk_tool_demo._count_right", lambda: (1, 2))
    for _ in range(2):
        assert main(["demo", "--folder", "a/b"]) == 0
    assert (here / "a/b/run").is_dir()
    assert (here / "a/b/digits.cntk").read_text() == "mine"
