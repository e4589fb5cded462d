"""Recipes that are BrainScript as a whole: what actions see of them."""

from __future__ import annotations

import pytest

from cntk_core.api import Config

TRAIN = "train = new TrainAction [ modelPath = 'm' ]\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("3", "3"),
        ("0.1", "0.1"),
        ("1e-5", "1e-05"),
        ("-2 * 3", "-6"),
        ("'a text'", "a text"),
        ('"it\'s"', "it's"),
        ("'' ", ""),
        ("1 == 1", "true"),
        ("if n > 2 then 'big' else 'small'", "big"),
        ("dir + '/x.' + n", "/d/x.3"),
        ("0.5 : 0.25", "0.5:0.25"),
        ("array[0..2] (i => i * i)", "0:1:4"),
        ("new TensorShape [ dims = 2 : 3 ]", "2:3"),
        ("r.inner", "7"),
        ("(r with [ inner = 8 ]).twice", "16"),
    ],
)
def test_values_become_texts(read, value, text):
    head = "actions = 'train' ; n = 3 ; dir = '/d' ; r = [ inner = 7 ; twice = 2 * inner ]\n"
    assert read(f"{head}key = {value}").get("key").string() == text


def test_numbers_keep_their_value(read):
    config = read("actions = 'a' ; x = 1 / 3 ; y = 2 * 1000 * 1000 * 1000 ; z = true && !false")
    assert config.real("x") == 1 / 3
    assert config.integer("y") == 2_000_000_000
    assert config.boolean("z") is True


def test_schedules(read):
    config = read("actions = 'a' ; rate = Repeat (2, 0.5) : 0.1 ; text = '0.5*2:0.1' ; mixed = '1*2' : 3 ; one = 4")
    assert [config.schedule("rate", float)[i] for i in range(4)] == [0.5, 0.5, 0.1, 0.1]
    assert [config.schedule("text", float)[i] for i in range(3)] == [0.5, 0.5, 0.1]
    assert config.schedule("one", int)[7] == 4


def test_arrays_of_records_are_sections(read):
    config = read("actions = 'a' ; parts = [| [ type = 'one' ] ; [ type = 'two' ; n = 2 ] |]")
    parts = [value.config() for value in config.array("parts")]
    assert [part.string("type") for part in parts] == ["one", "two"]
    assert parts[1].integer("n") == 2


def test_records_are_sections_that_see_those_around(read):
    config = read(
        "actions = 'Train'\nminibatchSize = 5\nTrain = [ action = 'train'\n"
        "  SGD = [ maxEpochs = 2 ; n = maxEpochs + 1 ] ]"
    )
    sgd = config.section("Train").section("SGD")
    assert sgd.name == "Train:SGD"
    assert sgd.where.line == 4
    assert (sgd.integer("maxEpochs"), sgd.integer("n"), sgd.integer("minibatchSize")) == (2, 3, 5)
    assert [section.name for section in config.sections()] == ["Train"]


def test_a_member_that_was_changed_stands_where_it_was_changed(read):
    config = read("actions = 'a' ; r = [ n = 7 ; m = 8 ]\nt = r with [\n n = 2 * 4\n more = 3 * 1 ]").section("t")
    lines = {name: (config.get(name).key_where.line, config.get(name).where.line) for name in ("n", "m", "more")}
    assert lines == {"n": (3, 3), "m": (1, 1), "more": (4, 4)}


def test_functions_are_no_keys(read):
    config = read("actions = 'a' ; half (x) = x / 2 ; twice = x => 2 * x ; n = half (4) : twice (4)")
    assert config.keys() == ("n", "command")
    assert config.strings("n") == ("2", "8")


def test_a_name_with_two_spellings(read):
    config = read("actions = 'a' ; DeviceId = 'cpu' ; deviceId = DeviceId + '!' ; X = 1 ; B = 2 ; b = 3")
    assert config.string("deviceId") == "cpu!"
    assert config.integer("x") == 1
    assert config.integer("B") == 3


@pytest.mark.parametrize(
    ("actions", "names"),
    [
        ("actions = train", ("train",)),
        ("actions = train : test", ("train", "test")),
        ("actions = 'train:test'", ("train", "test")),
        ("actions = 'train' : test", ("train", "test")),
        ("command = 'test'", ("test",)),
        ("command = train ; actions = test", ("test",)),
        ("actions = train : train", ("train", "train")),
        ("actions = if 1 < 2 then train else test", ("train",)),
        ("actions = [ action = 'test' ]", ("actions[0]",)),
        ("actions = train : new PrintAction [ what = 'x' ]", ("train", "actions[1]")),
        ("actions = array[1..2] (i => new PrintAction [ what = i ])", ("actions[0]", "actions[1]")),
    ],
)
def test_the_list_of_actions(read, actions, names):
    config = read(f"{actions}\n{TRAIN}test = [ action = 'test' ]")
    assert config.strings("command") == names
    assert all(config.section(name).own("action") is not None for name in names)


def test_objects_have_their_action(read):
    config = read(f"actions = train : say : stop\n{TRAIN}say = new PrintAction [ what = 2 : 3 ]\nstop = Stop ()\n"
                  "Stop () = new FailAction [ what = 'no' ]")  # fmt: skip
    assert [config.section(name).string("action") for name in ("train", "say", "stop")] == [
        "train", "PrintAction", "FailAction",
    ]  # fmt: skip
    assert config.section("say").string("what") == "( 2\n  3 )"


def test_names_that_the_original_gave_to_parts(read):
    config = read(
        "actions = train\ntrain = new TrainAction [\n optimizer = new SGDOptimizer [ maxEpochs = 1 ]\n"
        " reader = new DataReaderPlugin [ readerType = 'X' ]\n createNetwork () = new ComputationNetwork [ ]\n]"
    )
    train = config.section("train")
    assert train.section("SGD").integer("maxEpochs") == 1
    assert train.section("reader").string("readerType") == "X"
    assert train.get("BrainScriptNetworkBuilder") is not None
    assert train.get("BrainScriptNetworkBuilder").key_where.line == 5


def test_nothing_is_evaluated_before_it_is_needed(read, said):
    config = read("actions = a ; a = new PrintAction [ what = Print ('now') ] ; bad = Fail ('never')")
    assert said == []
    assert config.section("a").string("what") == "now"
    assert said == ["now"]


def test_print_in_an_expression_gives_its_value(read, said):
    assert read("actions = 'a' ; n = 1 + Print (2)").integer("n") == 3
    assert said == ["2"]


def test_the_listing_has_everything(read):
    config = read("actions = a ; a = new PrintAction [ what = 'x' ; r = [ n = 1 ] ] ; bad = Fail ('no') ; f = Pass")
    dump: str = config.dump(resolved=True)
    assert dump == (
        "configparameters: r.bs:a=[what=x; r=[n=1]; action=PrintAction]\n"
        "configparameters: r.bs:bad=(no)\n"
        "configparameters: r.bs:command=a\n"
        "configparameters: r.bs:f=(the function Pass(_, tag=))\n"
    )


def test_several_files(read, tmp_path):
    (tmp_path / "more.bs").write_text("m = n + 1\ninclude 'deep.bs'\n", encoding="utf-8")
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/deep.bs").write_text("d = m + 1\n", encoding="utf-8")
    config = read("actions = 'a' ; n = 1", files=["more.bs"], folders=["inc"])
    assert isinstance(config, Config)
    assert config.integer("d") == 3
    assert config.location("d").file == str(tmp_path / "inc/deep.bs")
