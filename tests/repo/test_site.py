"""The site: its navigation, where its links lead, and what is made of other files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def pages(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.pages")


@pytest.fixture(scope="module")
def navigation(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.navigation")


@pytest.fixture(scope="module")
def made(load_tool: Load) -> ModuleType:
    return load_tool("docs_site.made")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository with pages of all kinds."""
    files = {
        "README.md": "# Tour\n",
        "docs/index.md": "# Documentation\n",
        "docs/one.md": "# One\n",
        "docs/two.md": "# `Two`\n",
        "docs/notebooks.md": "# Notebooks\n",
        "docs/notebooks/01-first-steps.ipynb": "{}",
        "docs/picture.svg": "<svg/>",
        "plugins/readers/uci/README.md": "# A wheel\n",
        "plugins/readers/uci/src/a/README.md": "# Within a wheel: no page\n",
        "examples/README.md": "# Examples\n",
        "examples/net/README.md": "# A net\n",
        "examples/bare/make_data.py": "print('~~~')\n```\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_each_page_stands_in_the_navigation_once(navigation: ModuleType, pages: ModuleType) -> None:
    listed = navigation.listed(navigation.navigation())
    assert sorted(listed) == sorted(pages.pages().values()), "docs/index.md lists each page, once"


def test_the_doors_by_task_come_first(navigation: ModuleType) -> None:
    home, tasks, *_ = navigation.navigation()
    assert home == {"Home": "index.md"}
    assert [next(iter(section)) for section in tasks["By task"]] == [
        "I have a recipe",
        "I have a model",
        "I have arrays",
        "I have CNTK Python scripts",
        "I have many machines",
        "I write a plugin",
    ]


def test_no_page_is_lost_by_the_names_on_the_site(pages: ModuleType) -> None:
    found = pages.pages()
    assert len(set(found.values())) == len(found) > 200


def test_links_of_all_pages_lead_to_what_is_there(pages: ModuleType, root: Path) -> None:
    for path, name in pages.pages().items():
        if not path.endswith(".md"):
            continue
        text, files = pages.for_site((root / path).read_text(encoding="utf-8"), path)
        assert all((root / file).is_file() for file in files), path
        names = set(pages.pages().values()) | {pages.name_on_site(file) for file in files}
        for prose, line in pages.parts(text):
            for match in pages.LINK.finditer(pages.CODE_SPAN.sub("", line)) if prose else ():
                link = match[2].partition("#")[0]
                if link and not pages.OTHER_SITE.match(match[2]):
                    assert pages.posixpath.normpath(f"{pages.posixpath.dirname(name)}/{link}".lstrip("/")) in names


def test_pages_of_a_tree(pages: ModuleType, tree: Path) -> None:
    assert pages.pages(tree) == {
        "docs/index.md": "index.md",
        "docs/notebooks.md": "notebooks.md",
        "docs/notebooks/01-first-steps.ipynb": "notebooks/01-first-steps.ipynb.md",
        "docs/one.md": "one.md",
        "docs/two.md": "two.md",
        "README.md": "readme.md",
        "plugins/readers/uci/README.md": "plugins/readers/uci/README.md",
        "examples/README.md": "examples/README.md",
        "examples/net/README.md": "examples/net/README.md",
        "examples/bare": "examples/bare/index.md",
    }


@pytest.mark.parametrize(
    ("page", "link", "there", "files"),
    [
        ("docs/one.md", "two.md#part", "two.md#part", []),
        ("docs/one.md", "#part", "#part", []),
        ("docs/one.md", "../README.md", "readme.md", []),
        ("docs/one.md", "../examples/net", "examples/net/README.md", []),
        ("docs/one.md", "../examples/bare/", "examples/bare/index.md", []),
        ("docs/one.md", "notebooks/01-first-steps.ipynb", "notebooks/01-first-steps.ipynb.md", []),
        ("docs/one.md", "picture.svg", "picture.svg", ["docs/picture.svg"]),
        ("docs/one.md", "https://example.org/a.md", "https://example.org/a.md", []),
        ("plugins/readers/uci/README.md", "../../../docs/one.md#a", "../../../one.md#a", []),
        ("README.md", "docs/one.md", "one.md", []),
    ],
)
def test_where_links_lead(pages: ModuleType, tree: Path, page: str, link: str, there: str, files: list[str]) -> None:
    text, others = pages.for_site(f"See [`this` one]({link}).\n", page, tree)
    assert (text, sorted(others)) == (f"See [`this` one]({there}).\n", files)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("`[x](two.md)` is no link\n", "`[x](two.md)` is no link\n"),
        ("```text\n[x](../README.md)\n```\n", "```text\n[x](../README.md)\n```\n"),
        ("| `a \\| b` | [`c`](../README.md) |\n", "| `a | b` | [`c`](readme.md) |\n"),
        ("`a \\| b`\n", "`a \\| b`\n"),
        ("a [link over\ntwo lines](../README.md).\n", "a [link over\ntwo lines](readme.md).\n"),
        ("- a:\n\n  ```text\n  b\n    c\n  ```\n- d\n", "- a:\n\n    ```text\n    b\n      c\n    ```\n\n- d\n"),
        ("- a\n  - b\n    and so on\n", "- a\n    - b\n        and so on\n"),
    ],
)
def test_markdown_of_code_hosts_becomes_that_of_the_site(pages: ModuleType, tree: Path, text: str, there: str) -> None:
    assert pages.for_site(text, "docs/one.md", tree)[0] == there


INDEX = """# Documentation

- not seen

## Part

- [One](one.md): a line.

### Section

- [`Two`](two.md)
- [Examples](../examples/README.md)
- [Notebooks](notebooks.md)

## Wheels

| | |
| --- | --- |
| readers | [uci](../plugins/readers/uci/README.md) |
"""


def test_the_navigation_is_that_of_the_index(navigation: ModuleType, tree: Path) -> None:
    (tree / "docs/index.md").write_text(INDEX, encoding="utf-8")
    below = [{"bare": "x"}]
    assert navigation.navigation(tree, {"docs/one.md": below}) == [
        {"Home": "index.md"},
        {
            "Part": [
                {"One": [{"One": "one.md"}, *below]},
                {
                    "Section": [
                        {"Two": "two.md"},
                        {
                            "Examples": [
                                {"Examples": "examples/README.md"},
                                {"Bare": "examples/bare/index.md"},
                                {"A net": "examples/net/README.md"},
                            ]
                        },
                        {
                            "Notebooks": [
                                {"Notebooks": "notebooks.md"},
                                {"First steps": "notebooks/01-first-steps.ipynb.md"},
                            ]
                        },
                    ]
                },
            ]
        },
        {"Wheels": [{"readers": [{"uci": "plugins/readers/uci/README.md"}]}]},
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- [One](one.md)\n", "docs/index.md:1: an entry stands above the first heading '##'"),
        ("## Part\n- [Other](other.md)\n", "docs/index.md:2: other.md is no page"),
        ("## Part\n- [Picture](picture.svg)\n", "docs/index.md:2: picture.svg is no page"),
    ],
)
def test_an_index_that_is_no_navigation(navigation: ModuleType, tree: Path, text: str, problem: str) -> None:
    (tree / "docs/index.md").write_text(text, encoding="utf-8")
    with pytest.raises(navigation.NavigationError) as caught:
        navigation.navigation(tree)
    assert str(caught.value) == problem


PIXEL = base64.b64encode(b"png").decode()


def notebook(source: str, *outputs: object) -> str:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "[one](../one.md)"]},
        {"cell_type": "code", "source": source, "outputs": list(outputs)},
    ]
    return json.dumps({"cells": cells})


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ({"output_type": "stream", "text": ["a\n", "b\n"]}, "```text\na\nb\n```"),
        ({"output_type": "execute_result", "data": {"text/plain": "3"}}, "```text\n3\n```"),
        (
            {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "x"}},
            "![what came out](01-first-steps-1.png)",
        ),
        (
            {"output_type": "display_data", "data": {"image/svg+xml": ["<svg/>"]}},
            "![what came out](01-first-steps-1.svg)",
        ),
        ({"output_type": "display_data", "data": {"text/html": "<b>"}}, ""),
    ],
)
def test_a_notebook_that_ran(made: ModuleType, tree: Path, output: object, shown: str) -> None:
    path = "docs/notebooks/01-first-steps.ipynb"
    (tree / path).write_text(notebook("print(1)"), encoding="utf-8")
    ran = tree / made.RAN
    ran.mkdir(parents=True)
    (ran / "01-first-steps.ipynb").write_text(notebook("print(1)", output), encoding="utf-8")
    text, pictures = made.notebook_page(path, tree)
    head = "# Title\n[one](../one.md)\n\n!!! note\n  What came out of each cell was made with the site. "
    link = '<a href="01-first-steps.ipynb" download>Download the notebook</a>'
    assert text.startswith(head + link + ".\n\n\n```python\nprint(1)\n```")
    assert text.rpartition("print(1)\n```")[2].strip() == shown
    assert list(pictures.values()) in ([], [b"png"], [b"<svg/>"])
    assert bool(pictures) == ("![" in shown)


def test_a_notebook_that_ran_otherwise_is_shown_as_it_is(made: ModuleType, pages: ModuleType, tree: Path) -> None:
    path = "docs/notebooks/01-first-steps.ipynb"
    (tree / path).write_text(notebook("print(2)"), encoding="utf-8")
    ran = tree / made.RAN
    ran.mkdir(parents=True)
    (ran / "01-first-steps.ipynb").write_text(
        notebook("print(1)", {"output_type": "stream", "text": "1"}), encoding="utf-8"
    )
    text, pictures = made.notebook_page(path, tree)
    assert "This notebook is shown without what comes out of it." in text
    on_site, _ = pages.for_site(text, path, tree)
    assert "!!! note\n    This notebook" in on_site  # eight blanks would make it code
    assert '<a href="01-first-steps.ipynb" download>' in on_site
    assert text.endswith("```python\nprint(2)\n```\n")
    assert pictures == {}


def test_the_page_of_a_folder_shows_its_files(made: ModuleType, tree: Path) -> None:
    assert made.folder_page("examples/bare", tree) == (
        "# Example: bare\n\n## `make_data.py`\n\n````python\nprint('~~~')\n```\n````\n"
    )
