"""labelToTargetMappingFile: a target of zeros and ones for each state takes the place of its class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import CntkError, EpochSpec
from cntk_testing.inside import unpack

LENGTHS = (7, 4, 9, 1, 6)
STATES = ("a[2]", "a[3]", "sil[2]")
FEATURES = "features=[ dim=2 ; scpFile=archive.scp ]\n"
LABELS = (
    "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list"
    " ; labelToTargetMappingFile=targets.txt ; targetDim=4 ]\n"
)
TARGETS = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]])
TEXT = "".join(f"{state} {''.join(map(str, row))}\n" for state, row in zip(STATES, TARGETS, strict=True))


@pytest.mark.parametrize("old", [True, False])
def test_targets_of_frames(make, corpus: Path, old: bool) -> None:
    (corpus / "targets.txt").write_text(TEXT)
    reader = make(FEATURES + LABELS + "randomize=none", old=old)
    assert [(stream.name, stream.shape) for stream in reader.streams] == [("features", (2,)), ("labels", (4,))]
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=1000))
    classes = [(t + 4) // 2 % 3 for length in LENGTHS for t in range(length)]
    data = minibatch.streams["labels"].data
    assert data.dtype == np.float32
    assert np.array_equal(data.toarray(), TARGETS[classes])


def test_marks_of_phones_are_on_the_targets(make, corpus: Path) -> None:
    (corpus / "targets.txt").write_text(TEXT.replace("0000", "1111"))
    labels = LABELS.replace(" ]", " ; phoneBoundaries=true ]")
    reader = make(FEATURES + labels + "frameMode=false ; randomize=none", old=False)
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=1000))
    stream = minibatch.streams["labels"]
    first, *_ = unpack(stream.data.toarray(), stream.layout)
    assert first.max(axis=1).tolist() == [2, 1, 2, 1, 2, 1, 2]
    assert first[0].tolist() == [0, 2, 2, 0]


CASES = [
    (TEXT, LABELS.replace(" ; targetDim=4", ""), "r.cntk:2:72: stream 'labels' of reader 'HTKMLFReader': "
     "labelToTargetMappingFile needs targetDim\n    Add targetDim=... to the block."),
    (TEXT, LABELS.replace(" ; labelMappingFile=states.list", ""), "r.cntk:2:41: stream 'labels' of reader "
     "'HTKMLFReader': labelToTargetMappingFile needs labelMappingFile\n    Add labelMappingFile=... to the block."),
    (TEXT.replace("sil", "sp"), LABELS, "targets.txt:3: state 'sp[2]', but the state list has 'sil[2]' here\n"
     "    Both files have the same order."),
    (TEXT + "x 1001\n", LABELS, "targets.txt:4: state 'x', but the state list has no more states\n"
     "    Both files have the same order."),
    ("a[2] 1001\n", LABELS, "targets.txt: there are targets of 1 states, and the state list has 3"),
    (TEXT.replace("0000", "000"), LABELS, "targets.txt:2: the target of state 'a[3]' must be 4 zeros and ones, not "
     "'000'\n    targetDim says how many; there are no blanks between them."),
    (TEXT.replace("0000", "0200"), LABELS, "targets.txt:2: the target of state 'a[3]' must be 4 zeros and ones, not "
     "'0200'\n    targetDim says how many; there are no blanks between them."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "labels", "message"), CASES)
def test_errors(make, corpus: Path, text: str, labels: str, message: str) -> None:
    (corpus / "targets.txt").write_text(text)
    with pytest.raises(CntkError) as caught:
        list(make(FEATURES + labels).minibatches(EpochSpec(minibatch_size=5)))
    assert str(caught.value) == message


def test_a_network_of_another_size(make, corpus: Path) -> None:
    (corpus / "targets.txt").write_text(TEXT)
    with pytest.raises(CntkError, match="has labels of dimension 4, but the network's input 'labels' is"):
        make(FEATURES + LABELS, inputs={"labels": (3,)})
