"""Features and labels as parts of composites: what their blocks mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_htk.deserializers import HTKFeatureDeserializer, HTKMLFDeserializer

from cntk_core.api import CntkError, Config, EpochSpec, ReaderContext
from cntk_core.api.builders import SourceText

FEATURES = "features=[ dim=2 ; scpFile=archive.scp ]"
LABELS = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]"
BLOCK = "frameMode=false\nrandomize=false\ninput=[ {} ]\n"


def made(kind: Any, text: str, **context: Any) -> Any:
    block = Config.from_source(SourceText.of(text, "r.cntk"))
    return kind(kind.settings_from(block, f"deserializer '{kind.__name__}'"), ReaderContext(**context))


def test_features_alone(corpus: Path) -> None:
    reader = made(HTKFeatureDeserializer, BLOCK.format(FEATURES), dtype=np.dtype(np.float32))
    assert [(stream.name, stream.shape, stream.sequence) for stream in reader.streams] == [("features", (2,), True)]
    rows = [row for one in reader.minibatches(EpochSpec()) for row in one.streams["features"].data.tolist()]
    lengths = (7, 4, 9, 1, 6)
    assert sorted(rows) == [[100 * n + t, 100 * n + t + 0.25] for n, count in enumerate(lengths) for t in range(count)]
    assert not list(reader.check())
    assert not reader.expands
    reader.close()


def test_labels_alone(corpus: Path) -> None:
    reader = made(HTKMLFDeserializer, BLOCK.format(LABELS))
    assert [(stream.name, stream.shape, stream.sequence) for stream in reader.streams] == [("labels", (3,), True)]
    assert not list(reader.check())
    reader.close()


@pytest.mark.parametrize("key", ["expandToUtterance=true", ""])
def test_whether_frames_are_repeated(key: str, corpus: Path) -> None:
    reader = made(HTKFeatureDeserializer, BLOCK.format(FEATURES) + key)
    assert reader.expands is bool(key)
    reader.close()


@pytest.mark.parametrize(("level", "told"), [(0, 0), (1, 1), (2, 1)])
def test_what_is_left_out_is_told_where_the_trace_level_says_so(level: int, told: int, corpus: Path) -> None:
    Path("archive.scp").write_text(Path("archive.scp").read_text() + "lost.mfc=all.chunk[0,999]\n")
    Path("ali.mlf").write_text(Path("ali.mlf").read_text() + '"lost.lab"\n')
    for kind, stream in ((HTKFeatureDeserializer, FEATURES), (HTKMLFDeserializer, LABELS)):
        lines: list[str] = []
        reader = made(kind, BLOCK.format(stream) + f"maxErrors=1\ntraceLevel={level}", trace=lines.append)
        for _ in reader.minibatches(EpochSpec()):
            pass
        reader.close()
        assert len(lines) == told


@pytest.mark.parametrize(
    ("kind", "stream", "message"),
    [
        (
            HTKFeatureDeserializer,
            LABELS,
            "r.cntk:3:1: deserializer 'HTKFeatureDeserializer' reads features, and 'labels' has labels",
        ),
        (
            HTKMLFDeserializer,
            FEATURES,
            "r.cntk:3:1: deserializer 'HTKMLFDeserializer' reads labels, and 'features' has no mlfFile",
        ),
    ],
)
def test_streams_of_another_kind(kind: Any, stream: str, message: str, corpus: Path) -> None:
    with pytest.raises(CntkError) as caught:
        made(kind, BLOCK.format(stream))
    assert str(caught.value) == message


@pytest.mark.parametrize("numeric", [False, True])
def test_keys_that_are_numbers(numeric: bool, corpus: Path, make) -> None:
    """As numbers 007 and 7 are the same, as texts they are not."""
    Path("archive.scp").write_text(Path("archive.scp").read_text().replace("utt0.mfc", "7.mfc").replace("utt", "1"))
    Path("ali.mlf").write_text(Path("ali.mlf").read_text().replace("utt0.lab", "007.lab").replace("utt", "1"))
    reader = make(f"{FEATURES}\n{LABELS}\nuseNumericSequenceKeys={str(numeric).lower()}", old=False)
    samples = sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec()))
    assert samples == (27 if numeric else 20)
