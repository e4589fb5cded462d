"""What follows the pages notices when they are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.commands import CommandError
from tests.docs.conftest import ROOT
from tests.docs.runner import REASONS, Page, PageError, check_quotation

Follow = Callable[[str], int]


@pytest.fixture
def follow(folder: Path) -> Follow:
    """Write a page, and follow it in a folder with the digits."""

    def write_and_follow(text: str) -> int:
        path = folder / "pages/page.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return Page(path, ROOT, folder).follow()

    return write_and_follow


def block(language: str, text: str, above: str = "") -> str:
    return f"{above}\n\n```{language}\n{text}\n```\n"


@pytest.mark.parametrize("reason", REASONS)
def test_a_block_that_is_not_run_says_why(follow: Follow, reason: str) -> None:
    assert follow(f"Then\n\n*(Not run here: {reason}.)*\n```sh\ncntk no-such-verb\n```\n") == 0


def test_a_reason_is_one_of_a_list(follow: Follow) -> None:
    with pytest.raises(PageError, match=r"^page\.md:line 4, column 1: 'it is late' is no reason; there are needs a "):
        follow("Then\n\n*(Not run here: it is late.)*\n```sh\ncntk --version\n```\n")


@pytest.mark.parametrize("language", ["", "bash", "python3"])
def test_a_block_has_a_language_that_is_known(follow: Follow, language: str) -> None:
    with pytest.raises(
        PageError, match=rf"^page\.md:line 3, column 1: a block of the language '{language}'; there are "
    ):
        follow(block(language, "cntk --version"))


@pytest.mark.parametrize("line", ["cntk train r.cntk", "$ cntk train r.cntk", "pip install x", "reader = [", "SGD={"])
def test_a_text_is_nothing_that_could_be_run(follow: Follow, line: str) -> None:
    with pytest.raises(PageError) as caught:
        follow(block("text", f"as in\n{line}"))
    assert str(caught.value) == f"a text has a command or a recipe, which has to be run: {line}"
    assert caught.value.__notes__ == ["page.md:3"]


def test_commands_are_run_where_the_last_one_went(follow: Follow, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner/few.cntk").write_text("command = a\na = [ action = train ]\n", encoding="utf-8")
    assert follow(block("sh", "cd inner  # a comment") + block("sh", "cntk config show \\\n    few.cntk")) == 2


def test_a_command_that_fails(follow: Follow) -> None:
    with pytest.raises(CommandError, match=r"^cntk train nothing\.cntk: exit status 1\n"):
        follow(block("sh", "cntk --version\ncntk train nothing.cntk"))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("rm -r x", "nothing is known of the command 'rm'"),
        ("pip uninstall cntk-core", "pages only install"),
        ("pip install cntk-reader-none", "there is no wheel 'cntk-reader-none'"),
        ('pip install "tensorboard[all]"', "tensorboard has no extra all"),
        ("$ cntk --version", "nothing is known of the command '$'"),
        (
            "cntk train r.cntk a=[b=1;c=2]",
            "cntk train r.cntk a=[b=1;c=2]: a shell takes ';' for itself; put the word into quotes",
        ),
    ],
)
def test_commands_that_are_none(follow: Follow, command: str, problem: str) -> None:
    with pytest.raises(CommandError) as caught:
        follow(block("sh", command))
    assert str(caught.value) == problem


def test_what_a_command_prints(follow: Follow) -> None:
    assert follow(block("console", "$ cntk --version\ncntk-core ...\n$ cntk plot --help")) == 1
    with pytest.raises(CommandError, match=r"^cntk --version\nexit status 0, printed:\ncntk-core .*\n\ninstead of:\n"):
        follow(block("console", "$ cntk --version\ncntk-core 99"))


def test_python_is_run(follow: Follow) -> None:
    assert follow(block("python", "x = 1") + block("python", "assert x == 1")) == 2
    with pytest.raises(AssertionError):
        follow(block("python", "assert 1 == 2"))


def test_examples_of_an_interpreter_are_compared(follow: Follow) -> None:
    assert follow(block("python", ">>> 1 + 1\n2\n>>> 2 + 2\n4\n")) == 2
    with pytest.raises(Exception, match="Expected:\n    3"):
        follow(block("python", ">>> 1 + 1\n3\n"))


def test_a_named_file_is_written_and_has_to_be_used(follow: Follow) -> None:
    module = block("python", "answer = 42", above="This is `known.py`:")
    assert follow(module + block("python", "from known import answer\nassert answer == 42")) == 2
    with pytest.raises(PageError, match=r"^page\.md: nothing on the page uses what it writes: known\.py$"):
        follow(module)


def test_who_uses_the_demo_says_so(follow: Follow) -> None:
    use = block("sh", "cntk config show digits.cntk")
    assert follow(use + "The recipe is that of `cntk demo`.\n") == 1
    with pytest.raises(PageError, match=r"^page\.md: nothing says that `cntk demo` makes digits\.cntk$"):
        follow(use)


def test_a_quotation_is_compared_with_the_file(tmp_path: Path) -> None:
    original = tmp_path / "a.txt"
    original.write_text("one\n  two\nthree\n\nfour\n", encoding="utf-8")
    for text in ("one\ntwo", "two\nthree\nfour", "one\n...\nfour", "...\nfour"):
        check_quotation(text, original)
    for text, line in (("one\nthree", "three"), ("two\none", "one"), ("five", "five"), ("one\n...\n5", "5")):
        with pytest.raises(PageError) as caught:
            check_quotation(text, original)
        assert str(caught.value) == f"a.txt does not go on with: {line}"


@pytest.mark.parametrize(
    "piece",
    [
        "SGD = [ minibatchSize = 16 ; gradUpdateType = adam ]",
        "SimpleNetworkBuilder = [ layerSizes = 64:5:10 ]",
        'reader = [ file = "test.ctf" ; input = [ labels = [ dim = 10 ; format = sparse ] ] ]',
    ],
)
def test_pieces_that_work(follow: Follow, piece: str) -> None:
    assert follow(block("cntk", piece, above="For `cntk demo`:")) == 1


@pytest.mark.parametrize(
    ("piece", "problem"),
    [
        ("SGD = [ minibatchSizes = 16 ]", "no option 'minibatchSizes'"),
        ("SimpleNetworkBuilder = [ layerSizes = 64 ]", "layerSizes"),
        (
            'reader = [ file = "none.ctf" ; input = [ x = [ dim = 1 ; format = dense ] ] ]',
            "cannot open file 'none.ctf'",
        ),
        ("command = Train", "a whole recipe needs a name, and a command that runs it"),
    ],
)
def test_pieces_that_fail(follow: Follow, piece: str, problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        follow(block("cntk", piece))


def test_brainscript_is_read(follow: Follow) -> None:
    assert follow(block("brainscript", "h = Tanh (W * x + b)")) == 1
    with pytest.raises(Exception, match="<text>:1:"):
        follow(block("brainscript", "h = Tanh (W * x + "))


def test_no_page_has_code_by_indentation() -> None:
    """A block without a fence has no language, so nobody would run it."""
    from tests.docs.test_pages import PAGES

    for name in PAGES:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        fenced = False
        for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1):
            fenced ^= line.lstrip().startswith("```")
            assert fenced or before.strip() or not line.startswith("    ") or not line.strip(), f"{name}:{number}"
