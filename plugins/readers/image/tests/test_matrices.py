"""The matrices of transforms: the mean image, and the axes along which colours vary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_image.matrices import read_intensity, read_mean

from cntk_core.api import CntkError


def element(name: str, rows: int, columns: int, values: np.ndarray) -> str:
    data = " ".join(map(str, values.reshape(-1).tolist()))
    return f"<{name}><rows>{rows}</rows><cols>{columns}</cols><data>{data}</data></{name}>"


def test_a_mean_image(tmp_path: Path) -> None:
    mean = np.arange(2 * 3 * 3.0).reshape(2, 3, 3)
    sizes = "<Channel>3</Channel><Row>2</Row><Col>3</Col>"
    path = tmp_path / "mean.xml"
    path.write_text(f"<opencv_storage>{sizes}{element('MeanImg', 1, 18, mean)}</opencv_storage>")
    np.testing.assert_array_equal(read_mean(path, None), mean)


def test_axes_of_colours(tmp_path: Path) -> None:
    values, vectors = np.array([3.0, 2, 1]), np.arange(9.0).reshape(3, 3)
    path = tmp_path / "axes.xml"
    path.write_text(
        f"<opencv_storage>{element('EigVal', 1, 3, values)}{element('EigVec', 3, 3, vectors)}</opencv_storage>"
    )
    found = read_intensity(path, None)
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], vectors)


@pytest.mark.parametrize("row", ["", "x", "-2", "\u0662", "2.0"])
def test_sizes_that_are_no_numbers(row: str, tmp_path: Path) -> None:
    sizes = f"<Channel>3</Channel><Row>{row}</Row><Col>3</Col>"
    path = tmp_path / "mean.xml"
    path.write_text(
        f"<opencv_storage>{sizes}{element('MeanImg', 1, 18, np.zeros(18))}</opencv_storage>", encoding="utf-8"
    )
    with pytest.raises(CntkError) as caught:
        read_mean(path, None)
    assert f"<Row> must be a whole number, not '{row}'" in str(caught.value)
