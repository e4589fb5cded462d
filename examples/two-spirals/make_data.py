"""Write ``train.ctf`` and ``test.ctf``: points on two spirals that wind round each other, with a little noise.

python make_data.py
"""

from __future__ import annotations

import math
import random
from pathlib import Path


def spirals(points: int, seed: int) -> list[str]:
    """Return lines of CNTK's text format, the two classes in turn."""
    source = random.Random(seed)
    lines = []
    for index in range(points):
        label = index % 2
        turn = source.random()
        angle = 1.5 * 2 * math.pi * turn + math.pi * label
        x = turn * math.cos(angle) + source.gauss(0, 0.015)
        y = turn * math.sin(angle) + source.gauss(0, 0.015)
        lines.append(f"|point {6 * x:.4f} {6 * y:.4f} |spiral {label}:1")
    return lines


if __name__ == "__main__":
    for name, points, seed in (("train.ctf", 4000, 1), ("test.ctf", 1000, 2)):
        Path(__file__).with_name(name).write_text("\n".join(spirals(points, seed)) + "\n", encoding="utf-8")
