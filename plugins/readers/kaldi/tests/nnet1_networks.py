"""Networks of nnet1, computed from the description of their components, one frame after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RANDOM = np.random.default_rng(11)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def lstm_arrays(given: int, cells: int, output: int) -> list[np.ndarray]:
    """Return the arrays of an LSTM, in the order of the file."""
    shapes = [(4 * cells, given), (4 * cells, output), (4 * cells,), (cells,), (cells,), (cells,), (output, cells)]
    return [RANDOM.normal(size=shape).astype(np.float32).astype(np.float64) for shape in shapes]


def lstm(arrays: list[np.ndarray], clip: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return what an LSTM makes of frames; the gates are cell, input, forget, output."""
    of_input, of_output, bias, for_input, for_forget, for_output, project = arrays
    cells = len(for_input)

    def run(frames: np.ndarray) -> np.ndarray:
        shown, cell, found = np.zeros(len(project)), np.zeros(cells), []
        for frame in frames:
            gates = of_input @ frame + of_output @ shown + bias
            news, enter, forget, leave = gates.reshape(4, cells)
            cell = np.tanh(news) * sigmoid(enter + for_input * cell) + sigmoid(forget + for_forget * cell) * cell
            cell = np.clip(cell, -clip, clip) if clip else cell
            shown = project @ (sigmoid(leave + for_output * cell) * np.tanh(cell))
            found.append(shown)
        return np.array(found)

    return run


def both_ways(arrays: list[np.ndarray], clip: float) -> Callable[[np.ndarray], np.ndarray]:
    ahead, back = lstm(arrays[:7], clip), lstm(arrays[7:], clip)
    return lambda frames: np.concatenate([ahead(frames), back(frames[::-1])[::-1]], axis=1)


def splice(*offsets: int) -> Callable[[np.ndarray], np.ndarray]:
    def run(frames: np.ndarray) -> np.ndarray:
        last = len(frames) - 1
        rows = [[frames[min(max(t + offset, 0), last)] for offset in offsets] for t in range(len(frames))]
        return np.array(rows).reshape(len(frames), -1)

    return run


def softmax(frames: np.ndarray) -> np.ndarray:
    powers = np.exp(frames - frames.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
