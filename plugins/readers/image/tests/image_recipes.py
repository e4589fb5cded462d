"""Made images and recipes."""

from __future__ import annotations

import numpy as np


def colours(number: int, rows: int = 6, columns: int = 8) -> np.ndarray:
    """An image whose pixels are all different, red first."""
    values = np.random.default_rng(number).permutation(rows * columns * 3) % 251
    return values.reshape(rows, columns, 3).astype(np.uint8)


def legacy(*features: str, top: str = "randomize=none", labels: int = 4) -> str:
    """The block of an ImageReader."""
    inner = " ; ".join(("width=5", "height=4", "channels=3", *features))
    return f'file="map.txt"\n{top}\nfeatures=[ {inner} ]\nlabels=[ labelDim={labels} ]\n'


def deserializer(*transforms: str, top: str = "randomize=none", file: str = "map.txt") -> str:
    """The block of a deserializer."""
    listed = " : ".join(f"[ {one} ]" for one in transforms)
    inner = f"features=[ transforms=( {listed} ) ] ; labels=[ labelDim=4 ]"
    return f'file="{file}"\n{top}\ninput=[ {inner} ]\n'
