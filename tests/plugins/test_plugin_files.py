"""What a plugin file has: which of its classes are offered, and which of its objects are asked as listeners."""

from __future__ import annotations

from textwrap import dedent

import pytest

from cntk_core.errors import BrokenPluginError
from cntk_core.plugins.files import components_of, listeners_of, load_file

CLASSES = """
    from abc import abstractmethod
    from cntk_core.api import Component, DataReader, Learner

    class Draft(DataReader):
        streams = ()
        @abstractmethod
        def more(self): pass
        def minibatches(self, epoch): return iter(())

    class Wav(Draft):
        def more(self): pass

    class Mp3(Wav): pass

    class Unfinished(Learner): pass

    Again = Wav
"""
LISTENERS = """
    from cntk_core.api import hookimpl, DataReader
    {imported}

    class Base:
        @hookimpl
        def cntk_epoch_end(self, summary): pass

    class Counts(Base): pass

    class Named:
        def __init__(self, name): self.name = name
        @hookimpl
        def cntk_epoch_end(self, summary): pass

    first = Named("first")
    second = Named("second")
    same = first

    class Reads(DataReader):
        @hookimpl
        def cntk_epoch_end(self, summary): pass

    class Plain:
        def cntk_epoch_end(self, summary): pass
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "mine.py"):
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return load_file(name)

    return write


def test_bases_that_are_no_components_themselves_are_left_out(load):
    """What is only not complete yet is offered: who asks for it is told what it lacks."""
    found = [(kind.word, one.__name__) for kind, one in components_of(load(CLASSES))]
    assert found == [("reader", "Wav"), ("reader", "Mp3"), ("learner", "Unfinished")]


def test_listeners_are_made_of_the_last_classes_or_are_the_objects_that_there_are(load, tmp_path, monkeypatch):
    (tmp_path / "elsewhere_hooks.py").write_text(
        "from cntk_core.api import hookimpl\nclass Theirs:\n    @hookimpl\n    def cntk_epoch_end(self, s): pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = load(LISTENERS.format(imported="from elsewhere_hooks import Theirs"))
    found = listeners_of(module)
    assert [type(one).__name__ for one in found] == ["Named", "Named", "Counts"]
    assert [one.name for one in found[:2]] == ["first", "second"]


def test_a_module_with_hooks_is_a_listener_itself(load):
    module = load("from cntk_core.api import hookimpl\n@hookimpl\ndef cntk_epoch_end(summary): pass\n")
    assert listeners_of(module) == [module]
    assert listeners_of(load("def cntk_epoch_end(summary): pass\n", "plain.py")) == []


def test_a_listener_that_cannot_be_made_names_its_class(load):
    text = LISTENERS.format(imported="").replace("class Counts(Base): pass", "Counts = 1")
    module = load(text.replace("class Base:", "class Base:\n        def __init__(self): self.x = 1 / 0"))
    with pytest.raises(BrokenPluginError) as caught:
        listeners_of(module)
    assert str(caught.value).endswith(
        "mine.py:5: the class Base has hooks, and making an object of it failed: ZeroDivisionError: division by zero\n"
        "    It is made without arguments, unless the file has an object: listener = Base(...)"
    )


@pytest.mark.parametrize(
    ("helper", "line"),
    [("x = 1 / 0\n", 3), ("x = = 1\n", 3), ("def f():\n    return 1 / 0\n\nf()\n", 3)],
    ids=["raises", "syntax", "inside"],
)
def test_an_error_in_another_file_is_told_at_the_line_that_asked_for_it(load, tmp_path, monkeypatch, helper, line):
    (tmp_path / "plugin_helper.py").write_text(helper, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BrokenPluginError) as caught:
        load("\n\nimport plugin_helper\n")
    assert (caught.value.where.file, caught.value.where.line) == ("mine.py", line)
    assert type(caught.value.__cause__) in (ZeroDivisionError, SyntaxError)


def test_an_error_before_the_first_line_has_no_line(tmp_path):
    file = tmp_path / "bytes.py"
    file.write_bytes(b"x = '\xff'\n")
    with pytest.raises(BrokenPluginError) as caught:
        load_file(str(file))
    assert str(caught.value).startswith(f"{file}")
