"""Draw what the networks of this folder have learned, into ``run/``.

python draw.py                  filters.png and predictions.png, of convnet.cntk
python draw.py reconstructions  reconstructions.png, of autoencoder.cntk
python draw.py angles           angles.png, of regression.cntk

Needs matplotlib: pip install "cntk-core[plot]".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.model import Model

HERE = Path(__file__).parent
SIZE = 8
Images = NDArray[np.float64]


def read_test(path: Path) -> tuple[list[float], Images]:
    """Return labels and pictures ``(count, 8, 8)``, 0 to 255, of a file that make_data.py wrote."""
    labels, rows = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        label, _, pixels = line.partition(" |features ")
        labels.append(float(label.split()[1].partition(":")[0]))
        rows.append([float(word) for word in pixels.split()])
    return labels, np.array(rows).reshape(-1, SIZE, SIZE)


def outputs(model: Model, images: Images, node: str) -> NDArray[Any]:
    """Return what a node makes of each picture; every picture is a sequence of one frame."""
    sequences = [image.reshape(1, 1, SIZE, SIZE) for image in images]
    return np.concatenate(model.evaluate({"features": sequences}, [node])[node])


def chances(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the softmax of each row."""
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[Any] = grown / grown.sum(axis=1, keepdims=True)
    return shares


def first_filters(model: Model) -> NDArray[Any]:
    """Return the filters ``(maps, height, width)`` of the first convolution."""
    filters = [item.value for item in model.network.parameters if item.value.ndim == 4 and item.value.shape[1] == 1]
    first: NDArray[Any] = filters[0][:, 0]
    return first


def panels(rows: int, columns: int) -> tuple[Any, Any]:
    """Return a new figure and its panels ``(rows, columns)``, without axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.1 * columns, 1.25 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for panel in grid.flat:
        panel.set_axis_off()
    return figure, grid


def save(figure: Any, path: Path) -> Path:
    """Save a figure and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def draw_filters(folder: Path) -> Path:
    """Draw the first filters; blue weights are negative, red ones positive."""
    filters = first_filters(Model.load(folder / "run" / "convnet.dnn"))
    figure, grid = panels(2, (len(filters) + 1) // 2)
    largest = np.abs(filters).max()
    for panel, values in zip(grid.flat, filters, strict=False):
        panel.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest)
    return save(figure, folder / "run" / "filters.png")


def draw_predictions(folder: Path) -> Path:
    """Draw the digits that are wrong, up to eight, and as many for which the network is least sure that it is right."""
    labels, images = read_test(folder / "test.ctf")
    shares = chances(outputs(Model.load(folder / "run" / "convnet.dnn"), images, "z").reshape(len(images), -1))
    found, wanted = shares.argmax(axis=1), np.array(labels, int)
    sure = shares.max(axis=1)
    rows = [np.flatnonzero(found != wanted), np.flatnonzero(found == wanted)]
    figure, grid = panels(2, 8)
    for row, (numbers, title) in enumerate(zip(rows, ("{found}, not {wanted}", "{found}"), strict=True)):
        order = numbers[np.argsort(sure[numbers])][:8]
        for panel, number in zip(grid[row], order, strict=False):
            panel.imshow(images[number], cmap="gray_r", vmin=0, vmax=255)
            text = title.format(found=found[number], wanted=wanted[number])
            panel.set_title(f"{text}\n{100 * sure[number]:.0f} %", fontsize=8)
    return save(figure, folder / "run" / "predictions.png")


def draw_reconstructions(folder: Path) -> Path:
    """Draw one of each digit, and what the auto-encoder makes of it below."""
    labels, images = read_test(folder / "test.ctf")
    images = images[[labels.index(digit) for digit in range(10)]]
    decoded = outputs(Model.load(folder / "run" / "autoencoder.dnn"), images, "decoded")
    figure, grid = panels(2, 10)
    for column, (image, again) in enumerate(zip(images, decoded.reshape(-1, SIZE, SIZE), strict=True)):
        grid[0, column].imshow(image / 256, cmap="gray_r", vmin=0, vmax=1)
        grid[1, column].imshow(again, cmap="gray_r", vmin=0, vmax=1)
    return save(figure, folder / "run" / "reconstructions.png")


def draw_angles(folder: Path) -> Path:
    """Draw ten turned digits with the angle that was found, and the one that it is."""
    angles, images = read_test(folder / "test_turned.ctf")
    found = outputs(Model.load(folder / "run" / "angle.dnn"), images[:10], "found").ravel()
    figure, grid = panels(1, 10)
    for column, angle in enumerate(found):
        grid[0, column].imshow(images[column], cmap="gray_r", vmin=0, vmax=255)
        grid[0, column].set_title(f"{45 * angle:.0f}°\n({45 * angles[column]:.0f}°)", fontsize=8)
    return save(figure, folder / "run" / "angles.png")


DRAWINGS = {
    "filters": draw_filters,
    "predictions": draw_predictions,
    "reconstructions": draw_reconstructions,
    "angles": draw_angles,
}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ("filters", "predictions"):
        print(DRAWINGS[chosen](HERE))
