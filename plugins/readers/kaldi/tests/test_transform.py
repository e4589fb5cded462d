"""featureTransform: files of Kaldi's nnet1, text and binary, do to frames what Kaldi does."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.nnet1_transform import read_transform
from kaldi_bytes import F, frames_of
from test_reader import ORDER, expected, utterances

from cntk_core.api import CntkError, Location

WHERE = Location("r.cntk", 1, 1)
FRAMES = np.array([[1.0, 2], [3, 4], [-5, 6]])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def word(number: int) -> bytes:
    return b"\4" + struct.pack("<i", number)


def values(array: np.ndarray, kind: bytes = b"F") -> bytes:
    """Return a vector or matrix in binary form."""
    head = kind + (b"V " if array.ndim == 1 else b"M ") + b"".join(word(size) for size in array.shape)
    return head + array.astype("<f4" if kind == b"F" else "<f8").tobytes()


def integers(*numbers: int) -> bytes:
    return word(len(numbers)) + struct.pack(f"<{len(numbers)}i", *numbers)


def component(name: str, output: int, given: int, *parts: bytes) -> bytes:
    return f"<{name}> ".encode() + word(output) + word(given) + b"".join(parts)


def binary(*components: bytes) -> bytes:
    return b"\0B<Nnet> " + b"".join(components) + b"</Nnet> "


def apply(data: bytes, frames: np.ndarray = FRAMES) -> np.ndarray:
    Path("t.nnet").write_bytes(data)
    transform = read_transform(Path("t.nnet"), WHERE)
    assert transform.input_dim == frames.shape[1]
    found = transform.apply(frames)
    assert found.shape == (len(frames), transform.output_dim)
    assert found.dtype == frames.dtype
    single = transform.apply(frames.astype(np.float32))
    assert single.dtype == np.float32
    assert np.allclose(single, found, atol=1e-5)
    return found


WEIGHTS = np.array([[1.0, 2], [0, 1], [-1, 0.5]])
TEXT = """<Nnet>
<Splice> 6 2
[ -1 0 1 ]
<!EndOfComponent>
<AddShift> 6 6
<LearnRateCoef> 0 [ 1 0 0 0 0 -1 ]
<Rescale> 6 6
 [ 2 1 1 1 1 0.5 ]
</Nnet>
"""


def test_text() -> None:
    first = [[(1 + 1) * 2, 2, 1, 2, 3, 1.5], [(1 + 1) * 2, 2, 3, 4, -5, 2.5], [(3 + 1) * 2, 4, -5, 6, -5, 2.5]]
    assert apply(TEXT.encode()).tolist() == first


BINARY = {
    "splice": (component("Splice", 6, 2, integers(-9, 0, 2)), [[1, 2, 1, 2, -5, 6], [1, 2, 3, 4, -5, 6],
                                                               [1, 2, -5, 6, -5, 6]]),
    "copy": (component("Copy", 3, 2, integers(2, 1, 2)), FRAMES[:, [1, 0, 1]]),
    "shift": (component("AddShift", 2, 2, values(np.array([0.5, -2]))), FRAMES + np.array([0.5, -2])),
    "scale": (component("Rescale", 2, 2, b"<LearnRateCoef> ", b"\4" + struct.pack("<f", 1),
                        values(np.array([2, 0.5]), b"D")),
              FRAMES * [2, 0.5]),
    "linear": (component("LinearTransform", 3, 2, values(WEIGHTS)), FRAMES @ WEIGHTS.T),
    "affine": (component("AffineTransform", 3, 2, b"<LearnRateCoef> ", b"\4" + struct.pack("<f", 1), b"<MaxNorm> ",
                         b"\x08" + struct.pack("<d", 0), values(WEIGHTS, b"D"), values(np.array([1.0, 2, 3])),
                         b"<!EndOfComponent> "), FRAMES @ WEIGHTS.T + [1, 2, 3]),
    "sigmoid": (component("Sigmoid", 2, 2), 1 / (1 + np.exp(-FRAMES))),
    "tanh": (component("Tanh", 2, 2), np.tanh(FRAMES)),
    "softmax": (component("Softmax", 2, 2), np.exp(FRAMES) / np.exp(FRAMES).sum(axis=1, keepdims=True)),
    "length": (component("LengthNormComponent", 2, 2), FRAMES / np.sqrt((FRAMES**2).sum(axis=1))[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("case", BINARY)
def test_binary(case: str) -> None:
    data, wanted = BINARY[case]
    assert np.allclose(apply(binary(data)), wanted, rtol=1e-6)
    assert np.allclose(apply(b"\0B" + data), wanted, rtol=1e-6)


def test_one_after_the_other() -> None:
    both = binary(BINARY["copy"][0], component("AddShift", 3, 3, values(np.array([1.0, 2, 3]))))
    assert np.allclose(apply(both), FRAMES[:, [1, 0, 1]] + [1, 2, 3])


def test_extreme_values_give_no_warning() -> None:
    far = np.array([[-1e4, 1e4], [0, 0]])
    assert apply(binary(component("Sigmoid", 2, 2)), far).tolist() == [[0, 1], [0.5, 0.5]]
    assert apply(binary(component("Softmax", 2, 2)), far).tolist() == [[0, 1], [0.5, 0.5]]
    assert apply(binary(component("LengthNormComponent", 2, 2)), far)[1].tolist() == [0, 0]


def test_a_stream_goes_through_it(make) -> None:
    """Ranges of rows and columns come before it, windows of frames after it."""
    Path("t.nnet").write_text("<Splice> 4 2 [ 0 1 ] <Copy> 3 4 [ 3 1 4 ]\n")
    features = F.replace("dim=2", "dim=3 ; featureTransform=t.nnet")
    found = utterances(make(f"frameMode=false\n{ORDER}{features}"))
    for name, rows in expected().items():
        frames = np.array(rows)
        later = frames[np.minimum(np.arange(len(frames)) + 1, len(frames) - 1)]
        assert found[name] == np.column_stack([later[:, 0], frames[:, 0], later[:, 1]]).tolist()
    windows = make(f"frameMode=false\n{ORDER}{features.replace('dim=3', 'dim=9')}")
    assert windows.streams[0].shape == (9,)
    assert utterances(windows)["utt-a"][3] == np.concatenate([found["utt-a"][t] for t in (2, 3, 4)]).tolist()
    offset = Path("feats.scp").read_text().split()[1]
    Path("feats.scp").write_text(f"utt-a {offset}[1:2]\n")
    assert utterances(make(f"frameMode=false\n{ORDER}{features}"))["utt-a"][1] == [
        frames_of("utt-a")[2, 0], frames_of("utt-a")[2, 0], frames_of("utt-a")[2, 1]
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["NO_FEATURE_TRANSFORM", '""'])
def test_no_transform(make, name: str) -> None:
    text = F.replace("dim=2", f"dim=2 ; featureTransform={name}")
    assert utterances(make(f"frameMode=false\n{ORDER}{text}")) == expected()


HINT = "\n    featureTransform is a file of Kaldi's nnet1, as nnet-concat and nnet-initialize write it."
CUT = "\n    The file is damaged or was not copied to its end."
KNOWN = (
    "\n    These are known: Splice, Copy, AddShift, Rescale, AffineTransform, LinearTransform, Sigmoid, Tanh, Softmax, "
    "LengthNormComponent. Write the transformed features to an archive with Kaldi's nnet-forward."
)
WRONG = {
    "empty": (b"", "t.nnet:1: there are no components" + HINT),
    "no name": (b"\nhello\n", "t.nnet:2: the name of a component was expected" + HINT),
    "another": (b"<Nnet>\n<Dropout> 2 2\n", "t.nnet:2: the component <Dropout> is not known here" + KNOWN),
    "sizes": (b"<Splice> 2 x", "t.nnet:1: a whole number was expected" + HINT),
    "negative": (b"<Splice> -2 2", "t.nnet:1: <Splice> takes 2 values and gives -2" + HINT),
    "chain": (b"<Splice> 4 2 [ 0 1 ]\n<Tanh> 2 2", "t.nnet:2: <Tanh> takes 2 values and gives 2, and the one before it "
              "gives 4" + HINT),
    "offsets": (b"<Splice> 4 2 [ 0 ]", "t.nnet:1: <Splice> has 1 offsets, but makes 4 values out of 2" + HINT),
    "places": (b"<Copy> 2 2 [ 0 1 ]", "t.nnet:1: <Copy> must name 2 values from 1 to 2" + HINT),
    "fewer places": (b"<Copy> 2 2 [ 1 ]", "t.nnet:1: <Copy> must name 2 values from 1 to 2" + HINT),
    "unequal": (b"<AddShift> 2 3 [ 1 1 ]", "t.nnet:1: the component takes 3 values and gives 2: they should be equally "
                "many" + HINT),
    "unequal function": (b"<Tanh> 2 3", "t.nnet:1: the component takes 3 values and gives 2: they should be equally "
                         "many" + HINT),
    "no bracket": (b"<AddShift> 2 2\n 1 1 ]", "t.nnet:2: '[' of an array was expected" + HINT),
    "no end": (b"<AddShift> 2 2\n [ 1 1", "t.nnet:2: the file ends where an array should be" + HINT),
    "number": (b"<AddShift> 1 1 [ one ]", "t.nnet:1: a number was expected" + HINT),
    "count": (b"<LinearTransform> 2 2 [ 1 2\n3 ]", "t.nnet:2: an array of 2 x 2 was expected, not 3 numbers" + HINT),
    "ends": (b"<AddShift> 1", "t.nnet:1: the file ends where a whole number should be" + HINT),
    "binary name": (b"\0Bhello ", "r.cntk:1:1: 't.nnet', byte 2: the name of a component was expected" + HINT),
    "binary number": (b"\0B<Splice> \5", "r.cntk:1:1: 't.nnet', byte 11: a whole number was expected" + HINT),
    "binary cut": (b"\0B<Splice> \4\0", "r.cntk:1:1: 't.nnet', byte 12: the file ends inside a whole number" + CUT),
    "binary count": (b"\0B" + component("Splice", 2, 2, word(-1)), "r.cntk:1:1: 't.nnet', byte 26: the file ends "
                     "inside an array of -1 whole numbers" + CUT),
    "binary array": (b"\0B" + component("AddShift", 2, 2, b"CM "), "r.cntk:1:1: 't.nnet', byte 23: the values of the "
                     "component were expected" + HINT),
    "binary sizes": (b"\0B" + component("AddShift", 2, 2, values(np.ones(3))), "r.cntk:1:1: 't.nnet', byte 27: an "
                     "array of 2 was expected, not of 3" + HINT),
    "binary hostile": (b"\0B" + component("AddShift", 2**30, 2**30, b"FV " + word(2**30)), "r.cntk:1:1: 't.nnet', byte "
                       "31: the file ends inside an array of 1073741824" + CUT),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_none(make, case: str) -> None:
    data, message = WRONG[case]
    Path("t.nnet").write_bytes(data)
    with pytest.raises(CntkError) as caught:
        make(F.replace("dim=2", "featureTransform=t.nnet ; dim=2"))
    assert str(caught.value).replace("r.cntk:1:12:", "r.cntk:1:1:") == message


def test_a_missing_file(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(F.replace("dim=2", "dim=2 ; featureTransform=t.nnet"))
    assert str(caught.value) == "r.cntk:1:20: cannot open the featureTransform 't.nnet': no such file or directory"


def test_a_transform_of_other_features(make) -> None:
    Path("t.nnet").write_text("<Tanh> 3 3\n")
    with pytest.raises(CntkError) as caught:
        make(F.replace("dim=2", "dim=3 ; featureTransform=t.nnet"))
    assert str(caught.value) == (
        "r.cntk:1:20: a frame of the table has 2 values, and 't.nnet' takes 3\n"
        "    Is it the transform of these features?"
    )
