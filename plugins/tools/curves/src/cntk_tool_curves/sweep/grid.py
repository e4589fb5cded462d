"""The points of a sweep: which keys have which values."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence

import attrs

from cntk_core.api import CntkError, Config, ConfigError, UsageError, did_you_mean

_OPENING, _CLOSING = "[({", "])}"
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_LONGEST = 80
_DIGITS = 6


@attrs.frozen
class Axis:
    """A key and the values that it is given in turn.

    Attributes:
        path: of the key: the blocks around it, then itself; ``("Train", "SGD", "minibatchSize")``.
        values: as a recipe writes them.
    """

    path: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path as one writes it."""
        return ":".join(self.path)


@attrs.frozen
class Point:
    """One choice of values.

    Attributes:
        values: by the path of the key.
    """

    values: Mapping[tuple[str, ...], str]

    @property
    def overrides(self) -> list[str]:
        """What is to be written behind a recipe, ``Train=[SGD=[minibatchSize=16]]``."""
        return [override(path, value) for path, value in self.values.items()]

    @property
    def folder(self) -> str:
        """A name for its folder that depends on its values alone, so that it is found again by a larger sweep."""
        text = ",".join(f"{path[-1]}={value}" for path, value in self.values.items())
        clean = _UNSAFE.sub("_", text)
        ends = [path[-1] for path in self.values]
        if clean == text and len(text) <= _LONGEST and len(set(ends)) == len(ends):
            return text
        whole = ",".join(f"{':'.join(path)}={value}" for path, value in self.values.items())
        return f"{clean[:_LONGEST]}-{hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]}"


def override(path: Sequence[str], value: str) -> str:
    """Return the ``key=value`` of a command line that gives a key within blocks a value."""
    *blocks, key = path
    return "".join(f"{block}=[" for block in blocks) + f"{key}={value}" + "]" * len(blocks)


def split_words(words: Sequence[str], config: Config) -> tuple[list[Axis], list[str]]:
    """Sort ``key=a,b,c`` from ``key=value``, which all points have.

    Args:
        words: of the command line.
        config: the recipe, in which plain keys are looked for.

    Returns:
        The keys that vary, and the other words as the command line of a training has them.

    Raises:
        UsageError, ConfigError: a key has a value twice or an empty one, is there twice, or cannot be found.
    """
    axes: list[Axis] = []
    fixed: list[str] = []
    for word in words:
        key, _, text = word.partition("=")
        values = tuple(split_values(text))
        if len(values) == 1:
            fixed.append(override(_path(key, config), text) if ":" in key else word)
            continue
        if "" in values:
            raise UsageError(f"'{word}' has an empty value between its commas")
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            raise UsageError(f"'{word}' has the value '{repeated}' twice")
        axis = Axis(_path(key, config), values)
        if any(axis.name.lower() == other.name.lower() for other in axes):
            raise UsageError(f"'{axis.name}' is there twice", hint="Give all its values in one word: key=a,b,c")
        axes.append(axis)
    return axes, fixed


def split_values(text: str) -> Iterator[str]:
    """Yield what stands between commas; those in quotation marks and brackets part nothing."""
    depth, quoted, begin = 0, False, 0
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            if letter == "," and not depth:
                yield text[begin:at].strip()
                begin = at + 1
    yield text[begin:].strip()


def _path(key: str, config: Config) -> tuple[str, ...]:
    """Return where a key is: as it is written, ``Train:SGD:key``, or where the recipe has it."""
    *blocks, last = key.split(":")
    if blocks:
        inner = config
        for name in blocks:
            value = inner.own(name)
            if value is None or not value.is_block:
                raise ConfigError(
                    f"the recipe has no block '{key.rpartition(':')[0]}'{did_you_mean(name, inner.block_names())}",
                    where=inner.where,
                    hint=f"Blocks: {', '.join(inner.block_names())}" if inner.block_names() else None,
                )
            inner = value.config()
        return (*blocks, last)
    if config.own(key) is not None:
        return (key,)
    places = list(_places(config))
    found = [path for path in places if path[-1].lower() == key.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"the recipe has '{key}' in several places",
            where=config.where,
            hint=f"Say which is meant: {', '.join(':'.join(path) for path in found)}",
        )
    raise ConfigError(
        f"the recipe has no key '{key}'{did_you_mean(key, [path[-1] for path in places])}",
        where=config.where,
        hint=f"For a key that the recipe leaves to the program, say in which block it stands: Train:SGD:{key}=...",
    )


def _places(config: Config, depth: int = 5) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all keys."""
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        yield (key,)
        value = config.own(key)
        if value is None or not depth:
            continue
        try:
            inner = value.config() if value.is_block else None
        except CntkError:
            continue  # a network in some language, or a variable that nobody knows
        if inner is not None:
            yield from ((key, *path) for path in _places(inner, depth - 1))


def grid(axes: Sequence[Axis], count: int = 0, seed: int = 1) -> list[Point]:
    """Return all combinations, the last key changing fastest; or some of them.

    Args:
        axes: the keys and their values.
        count: so many different ones, by chance; 0: all.
        seed: of the choice. A larger number with the same seed begins with the same ones.

    Raises:
        UsageError: the number is negative.
    """
    if count < 0:
        raise UsageError(f"--random {count} makes no sense: it is the number of points")
    paths, total = [axis.path for axis in axes], math.prod(len(axis.values) for axis in axes)
    if not count or count >= total:
        return [Point(dict(zip(paths, values, strict=True))) for values in itertools.product(*(a.values for a in axes))]
    chosen: dict[int, None] = {}
    numbers = random.Random(seed)
    while len(chosen) < count:
        chosen[numbers.randrange(total)] = None
    return [Point(dict(zip(paths, _values_at(axes, number), strict=True))) for number in chosen]


def _values_at(axes: Sequence[Axis], number: int) -> list[str]:
    """Return the values of the combination with a number, in the order of the whole grid."""
    values = []
    for axis in reversed(axes):
        number, at = divmod(number, len(axis.values))
        values.append(axis.values[at])
    return values[::-1]
