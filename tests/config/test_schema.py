"""Options: from a section to an attrs class."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from cntk_core.config import Config, Schedule, Value, bind, option, options, parse_text
from cntk_core.config.schema import at_least, option_keys
from cntk_core.errors import CntkError, MissingKeyError, OptionError, Problems


class Layout(enum.Enum):
    CHANNELS_FIRST = "CHW"
    CHANNELS_LAST = "HWC"


@options
class Stream:
    dim: int


@options
class Everything:
    max_epochs: int
    name: str = "x"
    trace: bool = False
    rate: float = 0.5
    file: Path | None = None
    layer_sizes: tuple[int, ...] = ()
    window: tuple[int, int] = (0, 0)
    minibatch_size: Schedule[int] = option(default=Schedule.constant(256), aliases=("mbSize",))
    truncate: bool = option(default=True, key="clippingWithTruncation", doc="Cut at the limit.")
    layout: Layout = Layout.CHANNELS_LAST
    mode: Literal["full", "partial"] = "full"
    stream: Stream | None = None
    streams: Config | None = None
    anything: Value | None = None
    seed: int = option(default=0, validator=attrs.validators.ge(0), doc="Zero or more.")


def read(text: str, **arguments: Any) -> Everything:
    return bind(parse_text(text, file="r"), Everything, what="learner 'x'", **arguments)


def raised(text: str) -> str:
    with pytest.raises(CntkError) as caught:
        read(text)
    return str(caught.value)


def test_defaults() -> None:
    assert read("maxEpochs=3") == Everything(max_epochs=3)


def test_all_types() -> None:
    got = read(
        "MAXEPOCHS=3\nname=a b\ntrace=1\nrate=2\nfile=d/f\nlayerSizes=4:5*2\nwindow=1:2\nmbSize=8*2:16\n"
        "clippingWithTruncation=false\nlayout=chw\nmode=Partial\nstream=[dim=3]\nstreams=[a=[dim=1]]\nanything=[x]\nseed=4"
    )
    assert (got.max_epochs, got.name, got.trace, got.rate, got.file) == (3, "a b", True, 2.0, Path("d/f"))
    assert (got.layer_sizes, got.window) == ((4, 5, 5), (1, 2))
    assert got.minibatch_size == Schedule.of([8, 8, 16])
    assert (got.truncate, got.layout, got.mode, got.seed) == (False, Layout.CHANNELS_FIRST, "partial", 4)
    assert got.stream == Stream(dim=3)
    assert got.streams is not None
    assert got.streams.sections()[0].integer("dim") == 1
    assert got.anything is not None
    assert got.anything.text == "x"
    assert read("maxEpochs=1\nlayout=channels_first").layout is Layout.CHANNELS_FIRST


def test_parents_are_looked_up_but_their_keys_are_not_checked() -> None:
    config = parse_text("command=Train\nrate=7\nSGD=[maxEpochs=2;rate=default;mbSize=9]\nminibatchSize=3")
    got = config.section("SGD").bind(Everything)
    assert (got.max_epochs, got.rate) == (2, 0.5)
    assert got.minibatch_size == Schedule.constant(9)


def test_ignored_keys() -> None:
    assert read("maxEpochs=3\nOTHER=1", ignore=("other",)).max_epochs == 3


def test_converters_and_private_names() -> None:
    @options
    class Odd:
        _hidden_size: int = option(converter=lambda n: n * 2, validator=attrs.validators.lt(10))

    assert bind(parse_text("hiddenSize=3"), Odd) == Odd(hidden_size=3)


KEYS = (
    "maxEpochs, name, trace, rate, file, layerSizes, window, minibatchSize, clippingWithTruncation, layout, mode, "
    "stream, streams, anything, seed"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "maxEpochs=1\nmod=full",
            f"r:2:1: learner 'x' has no option 'mod'; did you mean 'mode'?\n    Options: {KEYS}",
        ),
        ("maxEpochs=1\nqqqq=1", f"r:2:1: learner 'x' has no option 'qqqq'\n    Options: {KEYS}"),
        ("rate=1", "r: required parameter missing: maxEpochs\n    Add maxEpochs=... to the recipe."),
        (
            "maxEpochs=1\nmode=half",
            "r:2:6: mode must be one of the names below, not 'half'\n    Accepted: full, partial.",
        ),
        (
            "maxEpochs=1\nmode=ful",
            "r:2:6: mode must be one of the names below, not 'ful'; did you mean 'full'?\n    Accepted: full, partial.",
        ),
        (
            "maxEpochs=1\nlayout=WHC",
            "r:2:8: layout must be one of the names below, not 'WHC'; did you mean 'hwc'?\n    Accepted: chw, hwc.",
        ),
        (
            "maxEpochs=1\nwindow=1:2:3",
            "r:2:8: window must be 2 values, not '1:2:3'\n    Accepted: values separated with ':'.",
        ),
        ("maxEpochs=1\nseed=-1", "r:2:6: 'seed' must be >= 0: -1\n    Zero or more."),
        (
            "maxEpochs=1\nmbSize=1\nminibatchSize=2",
            "r:2:1: learner 'x' is given 'minibatchSize' and 'mbSize', which mean the same\n"
            "    Remove one of them ('minibatchSize' is at r:3:1).",
        ),
        (
            "maxEpochs=1\nstream=[dmi=3;dim=1]",
            "r:2:9: 'stream' of learner 'x' has no option 'dmi'; did you mean 'dim'?\n    Options: dim",
        ),
        (
            "maxEpochs=1\nstream=5",
            "r:2:8: stream must be a section, not '5'\n    Accepted: a block, stream=[ key=value ; ... ]",
        ),
        (
            "maxEpochs=1\nlayerSizes=4:x",
            "r:2:14: layerSizes[1] must be a whole number, not 'x'\n"
            "    Accepted: a whole number of at most 64 bits, written out.",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    assert raised(text) == message


def test_all_problems_together() -> None:
    with pytest.raises(Problems) as caught:
        read("maxEpochs=x\nqqqq=1\nstream=[a=1]")
    assert [type(error) for error in caught.value.errors][1:] != []
    assert str(caught.value).endswith("4 problems found")
    assert OptionError in {type(error) for error in caught.value.errors}
    assert MissingKeyError in {type(error) for error in caught.value.errors}


def test_no_options() -> None:
    @options
    class Nothing:
        pass

    with pytest.raises(OptionError) as caught:
        bind(parse_text("a=1", file="r"), Nothing, what="reader 'y'")
    assert str(caught.value) == "r:1:1: reader 'y' has no option 'a'\n    It has no options."


def test_an_unsupported_type_is_a_programming_error() -> None:
    @options
    class Wrong:
        a: complex

    with pytest.raises(TypeError, match="options cannot be of type"):
        bind(parse_text("a=1"), Wrong)


def test_a_least_number_and_options_that_do_not_go_together() -> None:
    @options
    class Pair:
        low: int = option(default=2, validator=at_least(2))
        high: float = 3.0

        def __attrs_post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high")

    def bound(text: str) -> Pair:
        return bind(parse_text(text, file="r"), Pair, what="learner 'x'")

    assert bound("low=2") == Pair(low=2)
    for text, message in (("low=1", "'low' must be at least 2, not 1"), ("low=4", "low must not be above high")):
        with pytest.raises(CntkError) as caught:
            bound(text)
        assert message in str(caught.value)
        assert str(caught.value).startswith("r")


def test_names_of_options() -> None:
    assert {"maxepochs", "mbsize", "minibatchsize", "clippingwithtruncation"} <= option_keys(Everything)
    assert option_keys(int) == frozenset()


def test_fields_that_are_not_given_are_passed() -> None:
    @options
    class Counted:
        seen: int = attrs.field(init=False, default=3)
        count: int = 1

    assert bind(parse_text("count=2 ; seen=4"), Counted, ignore=("seen",)).count == 2
