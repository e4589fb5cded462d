"""``-D``: definitions of the command line."""

from __future__ import annotations

import pytest

RECIPE = """\
actions = train
n = 1
twice = 2 * n
dir = 'a'
train = new TrainAction [
    modelPath = dir + '/m'
    SGD = [ maxEpochs = n ; minibatchSize = 8 ]
]
same = train
plain = [ x = 1 ; y = x + 1 ]
derived = plain with [ x = 10 ]
"""


def test_a_definition_counts_where_the_member_is_used(read):
    config = read(RECIPE, "n = 5", "dir = 'b'")
    assert config.integer("twice") == 10
    assert config.section("train").string("modelPath") == "b/m"
    assert config.section("train").section("SGD").integer("maxEpochs") == 5


def test_a_definition_sees_the_recipe(read):
    assert read(RECIPE, "dir = 'n is ' + n ; n = 7").string("dir") == "n is 7"


def test_the_last_one_wins_and_new_ones_are_added(read):
    config = read(RECIPE, "n = 5", "n = 6 ; more = n + 1")
    assert (config.integer("n"), config.integer("more")) == (6, 7)


def test_records_are_merged(read):
    config = read(RECIPE, "train = [ SGD = [ maxEpochs = 9 ; extra = maxEpochs + 1 ] ] ; plain = [ x = 3 ]")
    for name in ("train", "same"):
        sgd = config.section(name).section("SGD")
        assert [sgd.integer(key) for key in ("maxEpochs", "minibatchSize", "extra")] == [9, 8, 10]
    assert config.section("plain").integer("y") == 4
    assert config.section("derived").integer("y") == 11


def test_other_values_replace(read):
    config = read(RECIPE, "plain = 4", "derived = [ z = 1 ]", "train = new TrainAction [ modelPath = 'other' ]")
    assert config.integer("plain") == 4
    assert config.section("derived").keys() == ("z",)
    assert config.section("train").own("SGD") is None


def test_a_definition_has_its_place(read):
    where = read(RECIPE, "n = 5", "twice = 2 * n").get("twice").key_where
    assert str(where) == "<command line>:12:1"


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            "dir = /data/x",
            "<command line>:11:7: a value expected, not '/'\n"
            "    A text needs quotation marks: -D \"dir = '/data/x'\".",
        ),
        ("dir = 'a", "<command line>:11:7: this text has no closing quotation mark\n"
         "    It ends with '; there is no other way to write ' into it than the other kind of mark."),
        ("n", "<command line>:11:2: '=' expected, not the end of the text"),
    ],
)  # fmt: skip
def test_definitions_that_are_wrong(problem, definition, message):
    assert problem(RECIPE, definition).startswith(message)


def test_a_value_that_cannot_be_evaluated(problem):
    message = problem(RECIPE, "n = dri + '1'", then=lambda config: config.integer("twice"))
    assert message == "<command line>:11:5: unknown identifier 'dri'; did you mean 'dir'?"


def test_with_changes_objects_and_their_parts(read):
    config = read(
        "actions = a : b ; a = new TrainAction [ modelPath = 'm' ; second = modelPath + '2' ; reader = r ]\n"
        "r = new DataReaderPlugin [ readerType = 'X' ; file = 'f' ]\n"
        "b = a with [ modelPath = 'n' ; reader = a.reader with [ file = 'g' ] ]"
    )
    a, b = config.section("a"), config.section("b")
    assert (a.string("second"), b.string("second")) == ("m2", "n2")
    assert (a.section("reader").string("file"), b.section("reader").string("file")) == ("f", "g")
    assert b.section("reader").string("readerType") == "X"
    assert b.string("action") == "train"
