"""The readers keep the contract of readers: alone, in random order, and as parts of a composite."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from image_recipes import deserializer, legacy

from cntk_testing import PackagingContract, ReaderContract

JITTER = ("cropType=center", "sideRatio=0.8", "mbFormat=nhwc")


class TestInFileOrder(ReaderContract):
    samples = 11
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, images: Path, make):
        return lambda: make("ImageReader", legacy(*JITTER), dtype="float64")


class TestInRandomOrder(ReaderContract):
    samples = 11

    @pytest.fixture
    def reader_factory(self, images: Path, make):
        return lambda: make("ImageReader", legacy(top="randomizationSeed=3\nnumCPUThreads=3\ncacheSizeInBytes=0"))


class TestBase64(ReaderContract):
    samples = 11

    @pytest.fixture
    def reader_factory(self, images: Path, make, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("cntk_reader_image.base64file.CHUNK_BYTES", 1000)
        lines = [
            f"k{number}\t{number % 4}\t{base64.b64encode(Path(f'{number}.png').read_bytes()).decode()}\n"
            for number in range(11)
        ]
        Path("images.b64").write_text("".join(lines))
        scale = "type=Scale ; width=3 ; height=2 ; channels=3"
        text = deserializer(scale, "type=Transpose", top="randomize=auto", file="images.b64")
        return lambda: make("Base64ImageDeserializer", text)


@pytest.mark.slow
class TestViews(ReaderContract):
    samples = 110

    @pytest.fixture
    def reader_factory(self, images: Path, make):
        return lambda: make("ImageReader", legacy("cropType=multiView10", "sideRatio=0.5", top=""))


@pytest.mark.slow
class TestComposite(ReaderContract):
    samples = 10
    sequences = True

    @pytest.fixture
    def reader_factory(self, images: Path, make):
        Path("x.ctf").write_text("".join(f"{key} |x {key} 1\n" for key in (5, 3, 0, 1, 2, 9, 8, 7, 4, 10, 77)))
        part = deserializer("type=Crop ; cropSize=5:4", "type=Transpose", top="type=ImageDeserializer")
        text = 'type=CNTKTextFormatDeserializer\nfile="x.ctf"\ninput=[ x=[ dim=2 ; format=dense ] ]'
        both = f"deserializers=(\n[\n{part}\n]:[\n{text}\n]\n)\ntraceLevel=0"
        return lambda: make("Composite", both)


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-image"
    kind = "reader"
