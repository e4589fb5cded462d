"""Windows of the frames of utterances, and the keys that all readers of utterances share."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cntk_core.config import Config, parse_text
from cntk_core.errors import ConfigError, MissingKeyError
from cntk_kit_readers.utterance_keys import UtteranceKeys, UtterancePartKeys, context_window, read_utterance_part
from cntk_kit_readers.utterances import class_column, cut_chunks, read_windows

LENGTHS = np.array([3, 1, 2])


def read(number, frames):
    """Frame t of utterance n is [10 n + t, -t]."""
    for step in range(len(frames)):
        frames[step] = 10 * number + step, -step


@pytest.mark.parametrize("window", [(0, 0), (1, 0), (0, 2), (2, 1)])
def test_windows_repeat_the_ends(window):
    left, right = window
    width = 1 + left + right
    column = read_windows(
        np.array([4, 0, 7]), LENGTHS, read, dim=2, window=window, shape=(2 * width,), dtype=np.dtype("float32")
    )
    expected = [
        [(10 * number + near, -near) for near in np.clip(np.arange(step - left, step + right + 1), 0, length - 1)]
        for number, length in zip((4, 0, 7), LENGTHS.tolist(), strict=True)
        for step in range(length)
    ]
    places = np.concatenate(
        [start + np.arange(length) for start, length in zip(starts(column, width - 1), LENGTHS.tolist(), strict=True)]
    )
    np.testing.assert_array_equal(column.data[places], np.reshape(expected, (6, -1)))
    assert column.data.shape[0] == 6 + (width - 1) * 2  # no window goes over the end
    assert column.offsets is not None
    assert column.offsets.tolist() == [0, 3, 4, 6]


def starts(column, more: int) -> list[int]:
    """The rows at which the windows of utterances begin."""
    expected = [0, 3 + more, 4 + 2 * more]
    assert (column.rows is None) == (more == 0)
    if column.rows is not None:
        assert column.rows.tolist() == expected
    return expected


def test_no_utterances_and_single_frames():
    none = np.zeros(0, np.int64)
    nothing = read_windows(none, none, read, dim=2, window=(1, 1), shape=(6,), dtype=np.dtype("float64"))
    assert nothing.data.shape == (0, 6)
    ones = np.ones(2, np.int64)
    single = read_windows(np.arange(2), ones, read, dim=2, window=(0, 0), shape=(2,), dtype=np.dtype("float64"))
    assert single.offsets is None
    np.testing.assert_array_equal(single.data, [[0, 0], [10, 0]])


SECTION = parse_text("contextWindow=0", file="r.cntk")


def test_context_windows():
    for given, found in (([1], (0, 0)), ([5], (2, 2)), ([11], (5, 5)), ([0, 3], (0, 3)), ([2, 0], (2, 0))):
        assert context_window(given, SECTION) == found
    for wrong in ([4], [0], [-1], [-1, 2], [2, -1], [1, 2, 3], []):
        with pytest.raises(ConfigError) as caught:
            context_window(wrong, SECTION)
        shown = ":".join(map(str, wrong))
        assert str(caught.value) == (
            f"r.cntk:1:1: contextWindow must be an odd number of frames, or left:right, not '{shown}'\n"
            "    contextWindow=11 is the same as contextWindow=5:5."
        )


@pytest.mark.parametrize(
    ("randomize", "shuffled", "window"),
    [("auto", True, None), ("none", False, None), ("7", True, 7), ("9" * 18, True, int("9" * 18))],
)
def test_random_orders(randomize, shuffled, window):
    keys = UtteranceKeys(randomize=randomize)
    assert not keys.problems(SECTION)
    assert (keys.is_shuffled, keys.window_frames) == (shuffled, window)


@pytest.mark.parametrize("randomize", ["9" * 19, "some", "-1", "٣"])
def test_random_orders_that_are_none(randomize):
    (problem,) = UtteranceKeys(randomize=randomize).problems(parse_text("", file="r.cntk"))
    assert problem.message == f"randomize must be auto, none, or a number of frames, not '{randomize}'"


def part(text: str):
    def stream(section: Config, name: str, what: str) -> str:
        return section.string(name)

    block = parse_text(text, file="r.cntk")
    return read_utterance_part(block, "the part", UtterancePartKeys, stream, ignore=("input",), example="x=[ dim=3 ]")


def test_the_one_stream_of_a_part():
    keys, stream = part("maxErrors=3\ninput=[ x=a ]")
    assert keys["max_errors"] == 3
    assert stream == "a"
    with pytest.raises(ConfigError, match=r"^r\.cntk:1:7: 'input' of the part must have one stream, not 2$"):
        part("input=[ x=a ; y=b ]")
    with pytest.raises(MissingKeyError) as caught:
        part("maxErrors=3")
    assert str(caught.value).splitlines() == [
        f"{caught.value.where}: the part needs the key 'input'",
        "    Add input=[ x=[ dim=3 ] ], the name of a network input and its stream.",
    ]


def test_classes_of_frames():
    column = class_column(LENGTHS, np.array([2, 0, 1, 1, 0, 2], np.int32), np.array([1, 1, 0.5, 1, 1, 2]), 4)
    assert column.offsets is not None
    assert column.offsets.tolist() == [0, 3, 4, 6]
    assert column.data.toarray().tolist() == [
        [0, 0, 1, 0], [1, 0, 0, 0], [0, 0.5, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 2, 0],
    ]  # fmt: skip
    assert column.data.indptr.dtype == np.int32
    assert class_column(np.ones(2, np.int64), np.array([1, 0]), np.ones(2), 2).offsets is None


@pytest.mark.parametrize(
    ("lengths", "starts"),
    [([], [0]), ([5], [0, 1]), ([4, 4, 4], [0, 3]), ([10], [0, 1]), ([10, 1], [0, 2]), ([9, 1, 1], [0, 3]),
     ([11, 1], [0, 1, 2]), ([4, 7, 3, 20, 1], [0, 2, 4, 5])],
)  # fmt: skip
def test_a_chunk_ends_with_the_utterance_that_goes_beyond_its_frames(lengths, starts, monkeypatch):
    monkeypatch.setattr("cntk_kit_readers.utterances.CHUNK_FRAMES", 10)
    found, infos = cut_chunks(np.array(lengths, np.int64))
    assert found == starts
    assert [(info.sequences, info.samples) for info in infos] == [
        (end - begin, sum(lengths[begin:end])) for begin, end in pairwise(starts)
    ]
    assert [info.lengths is None for info in infos] == [
        set(lengths[begin:end]) == {1} for begin, end in pairwise(starts)
    ]
