"""Any text gives a tree or one typed error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cntk_core.config import Config, parse_text
from cntk_core.config.source import strip_comments
from cntk_core.errors import CntkError
from cntk_testing.examples import examples

_PIECES = [*'ab=[]{}()";:,* \n\t$#|-3', "$a$", "$b$", "a=", "b=[", "default", "..", ".\\", "a=$b$", "b=$a$"]
_PIECES += ["\r\n", "1#INF", "0x1p9999", "include="]
LIKE_A_RECIPE = st.lists(st.sampled_from(_PIECES), max_size=40).map("".join)


def try_everything(config: Config, depth: int = 0) -> None:
    for key in config.keys():  # noqa: SIM118
        value = config.get(key)
        if value is None:
            continue
        assert value.where.file
        for read in (value.resolved, value.string, value.boolean, value.integer, value.real, value.array):
            attempt(read)
        attempt(value.schedule, float)
        attempt(config.check_variables)
        section = attempt(value.config)
        if isinstance(section, Config) and depth < 3:
            try_everything(section, depth + 1)
    attempt(config.dump, True)
    config.dump(False)


def attempt(read: object, *arguments: object) -> object:
    try:
        return read(*arguments)  # type: ignore[operator]
    except CntkError as error:
        return None if str(error) else error


@examples(300)
@given(LIKE_A_RECIPE)
def test_recipes_with_mistakes(text: str) -> None:
    config = attempt(parse_text, text)
    if isinstance(config, Config):
        try_everything(config)


@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    config = attempt(parse_text, strip_comments(text).text)
    if isinstance(config, Config):
        try_everything(config)


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.integers(), max_size=6), st.sampled_from("\n;,")
)
def test_what_is_written_is_read(values: dict[str, int], separator: str) -> None:
    text = separator.join(f"{key} = {value}" for key, value in values.items())
    config = parse_text(f"[{text}]")
    small = {key: value for key, value in values.items() if -(2**63) <= value < 2**64}
    assert {key: config.integer(key) for key in small} == small
