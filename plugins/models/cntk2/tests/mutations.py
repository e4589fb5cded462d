"""Files that are wrong in a small way: in their bytes, or in what they say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from cntk_model_cntk2.values import Axis, NDShape, SizeT


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The bytes of a file with some of them changed, taken out or put in."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            data[at : at + 4] = b"\xff" * 4
    return bytes(data)


def places(values: Any) -> Iterator[tuple[Any, Any]]:
    for key in values if isinstance(values, dict) else range(len(values)):
        yield values, key
        if isinstance(values[key], dict | list):
            yield from places(values[key])


def _dims(chance: random.Random) -> NDShape:
    return NDShape(tuple(chance.choice((-3, -1, 0, 1, 3, 2**40)) for _ in range(chance.randrange(4))))


def altered(values: dict[str, Any], chance: random.Random) -> None:
    """Put something else of its kind in the place of a value of a dictionary, or take it out."""
    holder, key = chance.choice(list(places(values)))
    value = holder[key]
    if chance.random() < 0.1:
        del holder[key]
    elif isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, SizeT):
        holder[key] = SizeT(chance.choice((0, 1, 44, 57, 2**31, 2**64 - 1, chance.randrange(98))))
    elif isinstance(value, int):
        holder[key] = chance.choice((-1, 0, 2**31 - 1, -(2**31)))
    elif isinstance(value, float):
        holder[key] = chance.choice((0.0, -1.0, float("nan"), float("inf")))
    elif isinstance(value, str):
        others = [found for inside, at in places(values) if isinstance(found := inside[at], str)]
        holder[key] = chance.choice([*others, "", f"{value}x"])
    elif isinstance(value, NDShape):
        holder[key] = _dims(chance)
    elif isinstance(value, Axis):
        holder[key] = Axis(chance.choice((-3, 0, 9, 2**31 - 1, 2**31 - 2, 2**31 - 5)), chance.choice(("", "x")), True)
    elif isinstance(value, list) and value:
        chance.shuffle(value)
