"""Look-up, parents, types, variables, printing."""

from __future__ import annotations

import math

import pytest

from cntk_core.config import Config, Schedule, options, parse_text
from cntk_core.errors import CntkError, ConfigError, Location, MissingKeyError, Problems

RECIPE = """\
minibatchSize=32
DataDir=/data
Train=[
 action=train
 minibatchSize=default
 SGD=[
  maxEpochs=3
  rate=0.5*2:0.25
 ]
 reader=[ file="$DataDir$/x.txt" ; input=[ labels=[ dim=3 ] ; features=[ dim=4 ] ] ]
]
"""


@pytest.fixture
def recipe() -> Config:
    return parse_text(RECIPE, file="r.cntk")


def raised(action: object, *arguments: object) -> str:
    with pytest.raises(CntkError) as caught:
        action(*arguments)  # type: ignore[operator]
    return str(caught.value)


def test_keys_ignore_case_and_remember_their_spelling(recipe: Config) -> None:
    train = recipe.section("TRAIN")
    assert train.keys() == ("action", "minibatchSize", "SGD", "reader")
    assert train.string("ACTION") == "train"
    assert train.name == "Train"
    assert train.section("sgd").name == "Train:SGD"


def test_parent_look_up(recipe: Config) -> None:
    reader = recipe.section("Train").section("reader")
    assert reader.string("action") == "train"
    assert "action" in reader
    assert reader.own("action") is None
    assert reader.parent is not None
    assert reader.parent.own("action") is not None


def test_default_means_not_given_and_hides_the_parent(recipe: Config) -> None:
    train = recipe.section("Train")
    assert recipe.integer("minibatchSize") == 32
    assert "minibatchSize" not in train
    assert train.own("minibatchSize") is None
    assert train.integer("minibatchSize", 256) == 256


def test_a_section_found_in_a_parent_looks_up_through_the_child() -> None:
    config = parse_text("SGD=[x=1]\nTrain=[depth=2]")
    sgd = config.section("Train").section("SGD")
    assert sgd.name == "SGD"
    assert sgd.integer("depth") == 2


def test_places(recipe: Config) -> None:
    sgd = recipe.section("Train").section("SGD")
    assert sgd.where == Location("r.cntk", 6, 2)
    assert sgd.location("maxEpochs") == Location("r.cntk", 7, 3)
    value = sgd.get("maxEpochs")
    assert value is not None
    assert value.where == Location("r.cntk", 7, 13)
    assert value.key_where == Location("r.cntk", 7, 3)
    assert sgd.location("nothing") == sgd.where


def test_sections_in_the_order_of_the_text(recipe: Config) -> None:
    streams = recipe.section("Train").section("reader").section("input").sections()
    assert [(stream.name, stream.integer("dim")) for stream in streams] == [
        ("Train:reader:input:labels", 3),
        ("Train:reader:input:features", 4),
    ]


def test_types() -> None:
    config = parse_text(
        'i=-7\nr=1e-3\ninf=1#INF\nt=T\nf=0\nempty=""\ns="x y"\nl=a:b*2\nhex=0x1p3\nbig=18446744073709551615'
    )
    assert config.integer("i") == -7
    assert config.integer("big") == 2**64 - 1
    assert config.real("r") == 0.001
    assert config.real("inf") == math.inf
    assert config.real("hex") == 8.0
    assert config.boolean("t") is True
    assert config.boolean("f") is False
    assert config.boolean("empty", True) is False
    assert config.string("s") == "x y"
    assert config.strings("l") == ("a", "b", "b")
    assert [value.name for value in config.array("l")] == ["l[0]", "l[1]", "l[2]"]
    assert config.string("nothing", None) is None
    assert config.strings("nothing", ()) == ()


def test_nested_arrays() -> None:
    config = parse_text("a=((1:2):(3:4))")
    assert [[e.integer() for e in row.array()] for row in config.array("a")] == [[1, 2], [3, 4]]


def test_schedules(recipe: Config) -> None:
    sgd = recipe.section("Train").section("SGD")
    rate = sgd.schedule("rate", float)
    assert rate.values == ((0.5, 2), (0.25, 1))
    assert [rate[epoch] for epoch in range(4)] == [0.5, 0.5, 0.25, 0.25]
    assert sgd.schedule("nothing", int, 5) == Schedule.constant(5)
    assert sgd.schedule("nothing", int, [1, 2])[7] == 2
    assert sgd.schedule("nothing", float, rate) is rate
    assert parse_text("a=true:false").schedule("a", bool).values == ((True, 1), (False, 1))


def test_schedule_equality_and_text() -> None:
    assert Schedule.of([1, 1, 2]) == Schedule.runs([(1, 2), (2, 9)])
    assert Schedule.of([1, 1, 2]) != Schedule.of([1, 2])
    assert hash(Schedule.of([2, 2])) == hash(Schedule.constant(2))
    assert str(Schedule.of([0.5, 0.5, 0.25])) == "0.5*2:0.25"
    assert str(Schedule.constant(True)) == "true"
    assert len(Schedule.of([1, 1, 2])) == 3
    assert Schedule.constant(1) != 1
    with pytest.raises(ValueError, match="at least one"):
        Schedule.of([])
    with pytest.raises(IndexError, match="count from 0"):
        Schedule.constant(1)[-1]
    with pytest.raises(TypeError, match="no end"):
        list(Schedule.constant(1))


def test_raw_blocks_for_network_descriptions() -> None:
    text = "size=5\nNet=[\n a=Input($size$)\n b=F(a) # kept here\n]\n"
    value = parse_text(text, file="r").get("Net")
    assert value is not None
    assert value.raw.text.startswith("[\n a=Input($size$)")
    assert value.text == "\n a=Input(5)\n b=F(a) # kept here\n"
    source = value.resolved()
    assert str(source.locate(source.text.index("F(a)"))) == "r:4:4"
    assert str(source.locate(source.text.index("5"))) == "r:1:6"


def test_variables() -> None:
    config = parse_text('a=1\nb=$a$2\nc="$B$:$a$"\nd=$5 and $x y$\ne=$$a$$\nf=$_g$\n_g=3\nh=x$')
    assert config.string("c") == "12:1"
    assert config.string("d") == "$5 and $x y$"
    assert config.string("e") == "$$a$$"
    assert config.integer("f") == 3
    assert config.string("h") == "x$"
    assert config.raw("c") == "$B$:$a$"


def test_variables_see_the_top_level_first_then_the_section() -> None:
    config = parse_text("x=top\nTrain=[\n x=inner\n y=$x$\n z=$only$\n only=here\n]")
    train = config.section("Train")
    assert train.string("y") == "top"
    assert train.string("z") == "here"
    source = train.own("y")
    assert source is not None
    assert train.resolve(source.raw, inner_first=True).text == "inner"


def test_a_variable_can_stand_for_a_block_or_for_assignments() -> None:
    config = parse_text('block=[a=1;b=2]\nmore="c=3;d=4"\nkey=e\nS=$block$\nT=[$more$;$key$X=5]')
    assert config.section("S").integer("b") == 2
    section = config.section("T")
    assert (section.integer("c"), section.integer("d"), section.integer("eX")) == (3, 4, 5)


def test_check_variables_collects() -> None:
    config = parse_text("Train=[\n a=$one$\n b=$two$\n c=1\n]", file="r")
    with pytest.raises(Problems) as caught:
        config.section("Train").check_variables()
    assert len(caught.value.errors) == 2


def test_dump() -> None:
    config = parse_text("b=$A$/x\nA=[x=1]\nc=1", file="dir/r.cntk")
    assert config.dump(resolved=False) == (
        "configparameters: r.cntk:A=[x=1]\nconfigparameters: r.cntk:b=$A$/x\nconfigparameters: r.cntk:c=1\n"
    )
    assert "configparameters: r.cntk:b=[x=1]/x\n" in config.dump(resolved=True)
    assert config.section("A").dump(resolved=True) == "configparameters: r.cntk:A:x=1\n"


def test_child_and_with_parent(recipe: Config) -> None:
    child = recipe.child("extra=1", name="more")
    assert (child.integer("extra"), child.integer("minibatchSize"), child.name) == (1, 32, "more")
    other = child.with_parent(parse_text("minibatchSize=7"))
    assert other.integer("minibatchSize") == 7
    assert repr(other) == "<Config more (<text>): extra>"


def test_deep_nesting_does_not_recurse() -> None:
    depth = 20_000
    config = parse_text("a=" + "[a=" * depth + "1" + "]" * depth)
    assert config.section("a").section("a").name == "a:a"
    assert "expected" not in raised(parse_text, "a=" + "[" * depth)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "a=many",
            "integer",
            "r:1:3: a must be a whole number, not 'many'\n"
            "    Accepted: a whole number of at most 64 bits, written out.",
        ),
        (
            "a=1e3",
            "integer",
            "r:1:3: a must be a whole number, not '1e3'\n"
            "    Accepted: a whole number of at most 64 bits, written out. Write 1000.",
        ),
        (
            "a=18446744073709551616",
            "integer",
            "r:1:3: a must be a whole number, not '18446744073709551616'\n"
            "    Accepted: a whole number of at most 64 bits, written out.",
        ),
        (
            "a=1_000",
            "integer",
            "r:1:3: a must be a whole number, not '1_000'\n"
            "    Accepted: a whole number of at most 64 bits, written out.",
        ),
        (
            "a=0.5x",
            "real",
            "r:1:3: a must be a number, not '0.5x'\n    Accepted: a number such as 10, 0.5, 1e-3 or inf.",
        ),
        (
            "a=yes",
            "boolean",
            "r:1:3: a must be true or false, not 'yes'\n"
            "    Accepted: true, True, TRUE, t, T, 1, false, False, FALSE, f, F, 0.",
        ),
        (
            "a=5",
            "section",
            "r:1:3: a must be a section, not '5'\n    Accepted: a block, a=[ key=value ; ... ]",
        ),
        ("b=1", "string", "r: required parameter missing: a\n    Add a=... to the recipe."),
        ('a=""', "string", "r: required parameter missing: a\n    Add a=... to the recipe."),
        ("a=default", "string", "r: required parameter missing: a\n    Add a=... to the recipe."),
        (
            "a=$b$\nb=many",
            "integer",
            "r:1:3: a must be a whole number, not 'many'\n"
            "    Accepted: a whole number of at most 64 bits, written out.\n    The text comes from r:2:3.",
        ),
        (
            "DataDir=x\na=1/$DataDri$/y",
            "string",
            "r:2:5: unknown variable $DataDri$; did you mean 'DataDir'?\n"
            "    Set it at the top level of the recipe or on the command line: DataDri=...",
        ),
        (
            "a=$b$\nb=$c$\nc=$b$",
            "string",
            "r:3:3: variables that need each other: $b$ -> $c$ -> $b$\n"
            "    Give one of them a value without these variables.",
        ),
        (
            "a=$A$",
            "string",
            "r:1:3: variables that need each other: $a$ -> $A$\n    Give one of them a value without these variables.",
        ),
        (
            "a=$b$\nb=[x=1\ny=2]",
            "string",
            "r:1:3: the value of $b$ has several lines\n    Write it in one line (r:2:3), separated with ';'.",
        ),
    ],
)
def test_errors(text: str, kind: str, message: str) -> None:
    assert raised(getattr(parse_text(text, file="r"), kind), "a") == message


def test_missing_in_a_section(recipe: Config) -> None:
    sgd = recipe.section("Train").section("SGD")
    with pytest.raises(MissingKeyError) as caught:
        sgd.integer("maxEpoch")
    assert str(caught.value) == (
        "r.cntk:6:2: required parameter missing: Train:SGD:maxEpoch\n    Is 'maxEpochs' (r.cntk:7:3) meant for it?"
    )
    assert raised(sgd.integer, "zzz") == (
        "r.cntk:6:2: required parameter missing: Train:SGD:zzz\n    Add zzz=... to the section Train:SGD."
    )


def test_errors_in_schedules() -> None:
    config = parse_text("a=1:x:3\nb=()", file="r")
    assert raised(config.schedule, "a", float) == (
        "r:1:5: a[1] must be a number, not 'x'\n    Accepted: a number such as 10, 0.5, 1e-3 or inf."
    )
    assert raised(config.schedule, "b", int) == (
        "r:2:3: b must be a schedule, not '()'\n    Accepted: values for the epochs, such as 0.8:3.2*14:0.08."
    )


def test_variable_chains_are_bounded() -> None:
    long = "\n".join(f"v{i}=$v{i + 1}$" for i in range(60)) + "\nv60=x"
    assert raised(parse_text(long, file="r").string, "v0") == (
        "r:50:5: $v50$ is more than 50 variables deep\n    Use fewer variables inside the values of variables."
    )
    wide = "\n".join(f"v{i}=$v{i + 1}$$v{i + 1}$" for i in range(40)) + "\nv40=x"
    assert "the text grows too long when $v" in raised(parse_text(wide).string, "v0")
    assert parse_text(wide.replace("v40=x", 'v40=""')).string("v0", "") == ""


def test_a_text_that_looks_like_assignments_is_a_section() -> None:
    assert parse_text('a="x=1;y=2"').section("a").integer("y") == 2
    with pytest.raises(ConfigError):
        parse_text("a=x").section("a")


def test_parts_of_a_section(recipe: Config) -> None:
    train = recipe.section("Train")
    assert train.only(["ACTION", "SGD", "none"]).keys() == ("action", "SGD")
    assert train.block_names() == ["SGD", "reader"]
    changed = train.with_entries("action=test ; more=[ x=1 ]")
    assert changed.keys() == ("action", "minibatchSize", "SGD", "reader", "more")
    assert (changed.string("action"), changed.section("more").integer("x")) == ("test", 1)
    assert changed.string("DataDir") == "/data"
    assert [section.name for section in train.sections(leave_out=("sgd",))] == ["Train:reader"]


def test_keys_that_somebody_else_has_read(recipe: Config) -> None:
    @options
    class Own:
        action: str = ""

    train = recipe.section("Train")
    assert train.without(["ACTION", "sgd"]).keys() == ("minibatchSize", "reader")
    left = train.without(["ACTION", "sgd"], unless=Own)
    assert left.keys() == ("action", "minibatchSize", "reader")
    assert left.taken == ("sgd",)
    assert left.without(["reader"]).taken == ("sgd", "reader")


def test_hexadecimal_numbers() -> None:
    section = parse_text("a=0x1p4 ; b=-0x1p9999")
    assert section.real("a") == 16.0
    assert section.real("b") in (math.inf, -math.inf)


def test_a_value_is_where_its_text_begins() -> None:
    recipe = parse_text("a =   5", file="r.cntk")
    assert recipe.require("a").where == Location("r.cntk", 1, 7)


def test_the_largest_array(monkeypatch) -> None:
    monkeypatch.setattr("cntk_core.config.values._MAX_ELEMENTS", 5)
    assert len(parse_text("a=0*2:1*3").array("a")) == 5
    with pytest.raises(ConfigError) as caught:
        parse_text("a=0*2:1*4", file="r.cntk").array("a")
    assert str(caught.value) == "r.cntk:1:3: a has too many elements\n    An array has at most 5 elements."


def test_long_texts_are_cut_in_messages() -> None:
    for count, shown in ((60, "x" * 60), (61, "x" * 57 + "...")):
        with pytest.raises(ConfigError, match=f"^r.cntk:1:3: a must be a number, not '{shown}'\n"):
            parse_text(f"a={'x' * count}", file="r.cntk").real("a")


def test_a_dollar_that_is_text_before_a_variable() -> None:
    assert parse_text("n=4\na=$$ $1 $n$").string("a") == "$$ $1 4"


def test_how_much_variables_may_insert(monkeypatch) -> None:
    monkeypatch.setattr("cntk_core.config.variables._MAX_INSERTED", 6)
    assert parse_text("n=abc\na=$n$$n$").string("a") == "abcabc"
    with pytest.raises(ConfigError) as caught:
        parse_text("n=abc\na=$n$ $n$ $n$", file="r.cntk").string("a")
    assert str(caught.value) == (
        "r.cntk:2:11: the text grows too long when $n$ is filled in\n    At most 6 characters may come from variables."
    )


def test_schedules_in_python() -> None:
    schedule = Schedule.runs([(0.1, 2), (0.2, 1), (0.2, 2), (0.4, 1)])
    assert [schedule[epoch] for epoch in range(8)] == [0.1, 0.1, 0.2, 0.2, 0.2, 0.4, 0.4, 0.4]
    assert len(schedule) == 6
    assert str(schedule) == "0.1*2:0.2*3:0.4"
    with pytest.raises(IndexError, match=r"^epochs count from 0$"):
        schedule[-1]
    with pytest.raises(TypeError, match=r"^a schedule has no end; use \.values$"):
        iter(schedule)
    with pytest.raises(ValueError, match=r"^a schedule has at least one value$"):
        Schedule.runs([])
