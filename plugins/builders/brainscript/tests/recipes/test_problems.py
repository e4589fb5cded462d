"""What is wrong with recipes that are BrainScript as a whole, in the exact words."""

from __future__ import annotations

import pytest

from cntk_core.api import CntkError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a = 1",
            "r.bs: the recipe has no list of actions\n"
            "    Write, for instance, actions = train ; train = new TrainAction [ ... ].",
        ),
        (
            "actions = 3",
            "r.bs:1:1: 'actions' must list actions, not the number 3\n"
            "    Accepted: new TrainAction, PrintAction, FailAction; records with a member 'action'; names of such "
            "members.",
        ),
        ("actions = trian\ntrain = 1", "r.bs:1:11: unknown identifier 'trian'; did you mean 'train'?"),
        ("actions = 'a'\nb = [", "r.bs:2:6: a definition or ']' expected, not the end of the text\n"
         "    The '[' at r.bs:2:5 is still open."),
        ("actions = new TrainActon [ ]", "r.bs:1:11: unknown kind of object 'TrainActon'; did you mean 'TrainAction'?"),
    ],
)  # fmt: skip
def test_recipes_that_cannot_be_read(problem, text, message):
    assert problem(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "key = Pass",
            "r.bs:2:7: key is the function Pass(_, tag=), which no key of a recipe takes\n"
            "    Accepted: numbers, texts, true, false, arrays and records of them.",
        ),
        ("key = n", "r.bs:2:7: unknown identifier 'n'"),
        (
            "t = new TrainAction [ modelPath = 'm' ; steps = 1 ]\nkey = t.stps",
            "r.bs:3:9: new TrainAction [...] has no member 'stps'; did you mean 'steps'?\n"
            "    Members: modelPath, steps",
        ),
        ("key = 'x'", "r.bs:2:7: key must be a whole number, not 'x'\n"
         "    Accepted: a whole number of at most 64 bits, written out."),
        ("key = 1 : 2", "r.bs:2:7: key must be a whole number, not '1:2'"),
        ("key = [ a = 1 ]", "r.bs:2:7: key must be a whole number, not '[ ]'"),
        ("ky = 1", "r.bs: required parameter missing: key\n    Is 'ky' (r.bs:2:1) meant for it?"),
        (
            "optimizer = [ ]\nSGD = [ ]",
            "r.bs:3:1: 'optimizer' and 'SGD' mean the same, and both are given\n    'optimizer' is given at r.bs:2:1.",
        ),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(problem, text, message):
    assert problem(f"actions = 'a'\n{text}", then=lambda config: config.integer("key")).startswith(message)


def test_a_file_that_is_not_there(read, tmp_path):
    with pytest.raises(CntkError) as caught:
        read("actions = 'a'", files=["nothing.bs"])
    assert str(caught.value) == f"<command line>:2:1: cannot read '{tmp_path}/nothing.bs': No such file or directory"


def test_a_value_that_is_no_section(problem):
    text = "actions = 'a'\nSGD = 'maxEpochs=1'"
    assert problem(text, then=lambda config: config.section("SGD")) == (
        "r.bs:2:7: SGD must be a section, not 'maxEpochs=1'\n    Accepted: a block, SGD=[ key=value ; ... ]"
    )
