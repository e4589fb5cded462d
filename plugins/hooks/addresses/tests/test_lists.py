"""Files that lists name by addresses: each is brought here when it is read."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

from cntk_kit_recipes.cli import main

RECIPE = """\
modelPath = "net.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = {dim}:3
        trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError
    ]
    SGD = [ minibatchSize = 4 ; learningRatesPerSample = 0.01 ; maxEpochs = 1 ]
    reader = [ {reader} ]
]
"""
FRAMES = np.random.default_rng(1).normal(size=(3, 6, 4)).astype(">f4")
STATES = "".join(f"s{n}\n" for n in range(3))
MLF = "#!MLF!#\n" + "".join(
    f'"*/u{u}.lab"\n' + "".join(f"{t}00000 {t + 1}00000 s{(t + u) % 3}\n" for t in range(6)) + ".\n" for u in range(3)
)


def train(reader: str, dim: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE.format(reader=reader, dim=dim))
    return main(["train", "r.cntk"])


def brought(copies: Path) -> set[str]:
    return {path.name for path in (copies / "memory").rglob("*") if path.is_file()}


@pytest.mark.parametrize("prefix", ["", ' ; prefixPathInSCP = "memory://feats"'])
def test_features_of_htk(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    files = {"list.scp": "".join(f"u{n}={'' if prefix else 'memory://feats/'}u{n}.mfc\n" for n in range(3)).encode()}
    for number, frames in enumerate(FRAMES):
        files[f"u{number}.mfc"] = struct.pack(">iihh", len(frames), 100_000, 16, 9) + frames.tobytes()
    files |= {"mlfs": b"memory://feats/all.mlf\n", "all.mlf": MLF.encode(), "states": STATES.encode()}
    fsspec.filesystem("memory").pipe({f"/feats/{name}": content for name, content in files.items()})
    reader = (
        f'readerType = HTKMLFReader ; features = [ dim = 4 ; scpFile = "memory://feats/list.scp"{prefix} ]'
        ' ; labels = [ labelDim = 3 ; mlfFileList = "memory://feats/mlfs"'
        ' ; labelMappingFile = "memory://feats/states" ]'
    )
    assert train(reader, 4, tmp_path, monkeypatch) == 0
    assert brought(copies) == set(files)


def test_a_feature_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fsspec.filesystem("memory").pipe("/feats/list.scp", b"u0=memory://feats/u0.mfc\n")
    (tmp_path / "all.mlf").write_text(MLF)
    (tmp_path / "states").write_text(STATES)
    reader = (
        'readerType = HTKMLFReader ; features = [ dim = 4 ; scpFile = "memory://feats/list.scp" ]'
        ' ; labels = [ labelDim = 3 ; mlfFile = "all.mlf" ; labelMappingFile = "states" ]'
    )
    assert train(reader, 4, tmp_path, monkeypatch) == 1
    assert "cannot open feature file 'memory://feats/u0.mfc': no such file" in capsys.readouterr().err


def test_archives_of_kaldi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    archive, offsets = b"", []
    for number, frames in enumerate(FRAMES):
        archive += f"u{number} ".encode()
        offsets.append(len(archive))
        archive += b"\0BFM \4" + struct.pack("<i", 6) + b"\4" + struct.pack("<i", 4) + frames.astype("<f4").tobytes()
    listed = "".join(f"u{number} memory://kaldi/feats.ark:{offset}\n" for number, offset in enumerate(offsets))
    labels = "".join(f"u{u} {' '.join(str((t + u) % 3) for t in range(6))}\n" for u in range(3))
    files = {"feats.ark": archive, "feats.scp": listed.encode(), "ali.txt": labels.encode()}
    fsspec.filesystem("memory").pipe({f"/kaldi/{name}": content for name, content in files.items()})
    reader = (
        'readerType = Kaldi2Reader ; features = [ dim = 4 ; scpFile = "scp:memory://kaldi/feats.scp" ]'
        ' ; labels = [ labelDim = 3 ; mlfFile = "ark:memory://kaldi/ali.txt" ]'
    )
    assert train(reader, 4, tmp_path, monkeypatch) == 0
    assert brought(copies) == set(files)


def test_images_of_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    files = {}
    for number in range(3):
        stream = io.BytesIO()
        Image.new("RGB", (4, 4), (40 * number, 0, 0)).save(stream, "PNG")
        files[f"{number}.png"] = stream.getvalue()
    files["map.txt"] = "".join(f"memory://images/{number}.png\t{number}\n" for number in range(2)).encode()
    files["map.txt"] += b".../2.png\t2\n"  # beside the map
    fsspec.filesystem("memory").pipe({f"/images/{name}": content for name, content in files.items()})
    reader = (
        'readerType = ImageReader ; file = "memory://images/map.txt"'
        " ; features = [ width = 4 ; height = 4 ; channels = 3 ] ; labels = [ labelDim = 3 ]"
    )
    assert train(reader, 48, tmp_path, monkeypatch) == 0
    assert brought(copies) == set(files)


def test_sounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    files = {}
    for number in range(3):
        stream = io.BytesIO()
        with wave.open(stream, "wb") as sound:
            sound.setparams((1, 2, 8000, 0, "NONE", ""))
            sound.writeframes((np.sin(np.arange(4000) * (number + 1) / 9) * 9000).astype("<i2").tobytes())
        files[f"{number}.wav"] = stream.getvalue()
    files["wav.scp"] = "".join(f"u{number} memory://sounds/{number}.wav\n" for number in range(3)).encode()
    files["words"] = "".join(f"u{number} {number}\n" for number in range(3)).encode()
    fsspec.filesystem("memory").pipe({f"/sounds/{name}": content for name, content in files.items()})
    reader = (
        'readerType = AudioReader ; features = [ scpFile = "memory://sounds/wav.scp" ; dim = 40 ; sampleRate = 8000 ]'
        ' ; labels = [ labelFile = "memory://sounds/words" ; labelDim = 3 ]'
    )
    assert train(reader, 40, tmp_path, monkeypatch) == 0
    assert brought(copies) == set(files)


def test_several_in_an_array(copies: Path) -> None:
    from cntk_core.api.builders import parse_text

    fsspec.filesystem("memory").pipe({"/a": b"1", "/b": b"2"})
    paths = [Path(text) for text in parse_text("files=memory://a:memory://b*2:here").strings("files")]
    assert [path.read_bytes() for path in paths[:3]] == [b"1", b"2", b"2"]
    assert paths[3] == Path("here")
