"""The readers as a whole: the same images for any threads, broken ones left out, streams that are joined."""

from __future__ import annotations

import base64
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_image.draws import uniform
from cntk_reader_image.maker import PixelCache
from cntk_reader_image.resample import resize_bytes
from image_recipes import colours, deserializer, legacy
from PIL import Image

from cntk_core.api import DataError, EpochSpec
from cntk_core.api.builders import FREE

RANDOM = (
    "cropType=randomSide", "sideRatio=0.5:0.9", "jitterType=uniRatio", "brightnessRadius=0.2", "contrastRadius=0.2",
    "saturationRadius=0.4",
)  # fmt: skip


def read(reader, **spec) -> list[np.ndarray]:
    """The images of an epoch, in order."""
    found = reader.minibatches(EpochSpec(**{"minibatch_size": 4, **spec}))
    return [image for minibatch in found for image in minibatch.streams["features"].data]


def test_images_and_labels(images: Path, make) -> None:
    reader = make("ImageReader", legacy())
    assert [(s.name, s.shape, s.sparse) for s in reader.streams] == [
        ("features", (3, 4, 5), False),
        ("labels", (4,), True),
    ]
    (whole,) = reader.minibatches(EpochSpec(minibatch_size=20))
    assert whole.samples == 11
    expected = [resize_bytes(colours(n)[:, :, ::-1], 5, 4, "linear").transpose(2, 0, 1) for n in range(11)]
    assert (whole.streams["features"].data == np.array(expected)).all()
    assert (whole.streams["labels"].data.toarray().argmax(axis=1) == np.arange(11) % 4).all()


def test_transforms_that_change_nothing_cost_nothing(images: Path, make) -> None:
    """The usual recipe is resized into planes at once."""
    reader = make("ImageReader", legacy("cropType=randomSide", "sideRatio=0.8"))
    assert [type(step).__name__ for step in reader.source._maker._pipeline.steps] == ["Crop", "Scale"]
    assert reader.source._maker._pipeline._last_scale is not None


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("", ("linear", "fill", -1)),
        ("interpolations=cubic", ("cubic", "fill", -1)),
        ("interpolations=nearest ; scaleMode=crop", ("nearest", "crop", -1)),
        ("scaleMode=pad ; padValue=7", ("linear", "pad", 7)),
    ],
)
def test_what_a_recipe_says_of_scaling(images: Path, make, keys: str, wanted: tuple[str, str, int]) -> None:
    text = deserializer(f"type=Scale ; width=5 ; height=4 ; channels=3 ; {keys}", "type=Transpose")
    (step,) = make("ImageDeserializer", text).source._maker._pipeline.steps
    assert (step.width, step.height) == (5, 4)
    assert (step.method, step.mode, step.pad) == wanted


@pytest.mark.parametrize(
    ("keys", "threads"),
    [
        ("numCPUThreads=3", 3),
        ("multiThreadedDeserialization=true ; numCPUThreads=3", 3),
        ("multiThreadedDeserialization=false ; numCPUThreads=3", 1),
        ("", 0),
    ],
)
def test_how_many_threads_decode(images: Path, make, keys: str, threads: int) -> None:
    text = deserializer("type=Scale ; width=5 ; height=4 ; channels=3", top=f"randomize=none ; {keys}")
    assert make("ImageDeserializer", text).settings.threads == threads


def test_order_of_the_colours(images: Path, make) -> None:
    (planes,) = (read(make("ImageReader", legacy())),)
    (pixels,) = (read(make("ImageReader", legacy("mbFormat=nhwc"))),)
    assert make("ImageReader", legacy("mbFormat=legacy")).streams[0].shape == (4, 5, 3)
    free = make("ImageReader", legacy(), inputs={"features": (3, FREE, FREE), "labels": (4,)})
    assert free.streams[0].shape == (3, 4, 5)
    assert all((a == b.transpose(2, 0, 1)).all() for a, b in zip(planes, pixels, strict=True))


def test_gray(images: Path, make) -> None:
    text = legacy().replace("channels=3", "channels=1")
    (found,) = (read(make("ImageReader", text)),)
    expected = resize_bytes(np.asarray(Image.fromarray(colours(0)).convert("L"))[:, :, None], 5, 4, "linear")
    assert (found[0][0] == expected[:, :, 0]).all()


@pytest.mark.parametrize("top", ["numCPUThreads=1\nprefetch=false", "numCPUThreads=5", "cacheSizeInBytes=0"])
def test_the_same_images_for_any_threads_and_prefetching(images: Path, make, top: str) -> None:
    expected = [read(make("ImageReader", legacy(*RANDOM, top="")), epoch=epoch) for epoch in (0, 1)]
    reader = make("ImageReader", legacy(*RANDOM, top=top))
    for epoch in (1, 0, 1):
        for size in (1, 4, 11):
            found = read(reader, epoch=epoch, minibatch_size=size)
            assert all((a == b).all() for a, b in zip(found, expected[epoch], strict=True))


def test_every_sweep_and_every_seed_has_other_images(images: Path, make) -> None:
    reader = make("ImageReader", legacy(*RANDOM))
    first, second = (read(reader, epoch=epoch) for epoch in (0, 1))
    third = read(make("ImageReader", legacy(*RANDOM, "seed=5")))
    assert not any((a == b).all() or (a == c).all() for a, b, c in zip(first, second, third, strict=True))
    assert all((a == b).all() for a, b in zip(first, read(make("ImageReader", legacy(*RANDOM))), strict=True))


def test_parts_of_an_epoch_are_those_of_the_sweep(images: Path, make) -> None:
    """An image looks the same in a sweep however the epochs are cut."""
    whole = read(make("ImageReader", legacy(*RANDOM, top="")), epoch_size=22)
    reader = make("ImageReader", legacy(*RANDOM, top=""))
    pieces = [image for epoch in (1, 0, 3, 2) for image in read(reader, epoch=epoch, epoch_size=5)]
    order = [*range(5, 10), *range(5), *range(15, 20), *range(10, 15)]
    assert all((whole[place] == piece).all() for place, piece in zip(order, pieces, strict=True))


def test_where_a_random_crop_lies(images: Path, make) -> None:
    """The numbers of the documentation: seed, purpose, sweep and key say where the part lies."""
    text = deserializer("type=Crop ; cropType=randomSide ; sideRatio=0.5 ; seed=8", "type=Transpose")
    found = read(make("ImageDeserializer", text), epoch=2)
    for number in range(11):
        across, down, mirror = uniform(
            np.array([number], np.uint64), np.array([0]), count=3, sweep=2, seed=8, purpose=1
        )[0]
        top, left = int(down * 4), int(across * 6)
        part = colours(number)[top : top + 3, left : left + 3]
        expected = part[:, ::-1] if mirror < 0.5 else part
        assert (found[number] == expected[:, :, ::-1].transpose(2, 0, 1)).all()


def test_ten_views(images: Path, make) -> None:
    reader = make(
        "ImageReader",
        legacy("cropType=multiView10", "sideRatio=0.5").replace("width=5 ; height=4", "width=3 ; height=3"),
    )
    found = read(reader)
    assert len(found) == 110
    image = colours(0)[:, :, ::-1]
    for view, (top, left) in enumerate([(0, 0), (0, 5), (3, 0), (3, 5), (1, 2)]):
        part = image[top : top + 3, left : left + 3]
        assert (found[view] == part.transpose(2, 0, 1)).all()
        assert (found[view + 5] == part[:, ::-1].transpose(2, 0, 1)).all()


def test_views_without_copies_are_told(images: Path, make) -> None:
    reader = make("ImageDeserializer", deserializer("type=Crop ; cropType=multiView10 ; sideRatio=0.5"))
    assert reader.told == ["WARNING: cropType=multiView10 without multiViewCrop=true takes the upper left view alone"]
    more = deserializer("type=Crop ; cropType=multiView10 ; sideRatio=0.5", top="multiViewCrop=true")
    assert not make("ImageDeserializer", more).told


def test_images_as_they_are(images: Path, make) -> None:
    """Without Scale the first image that can be read tells how large they are, or the network does."""
    Path("0.png").write_bytes(b"")
    assert make("ImageDeserializer", deserializer("type=Transpose")).streams[0].shape == (3, 6, 8)
    assert make("ImageDeserializer", deserializer()).streams[0].shape == (6, 8, 3)
    flat = make("ImageDeserializer", deserializer(), inputs={"Features": (144,)}, dtype="float64")
    assert flat.streams[0].name == "Features"
    (minibatch,) = flat.minibatches(EpochSpec(minibatch_size=3, max_samples=3, epoch_size=3, epoch=1))
    assert (minibatch.streams["Features"].data[0] == colours(3)[:, :, ::-1].ravel()).all()


def test_broken_images_are_left_out(images: Path, make) -> None:
    Path("3.png").write_bytes(b"nothing")
    Path("7.png").unlink()
    reader = make("ImageReader", legacy(top="randomize=none\nmaxErrors=2"))
    minibatches = list(reader.minibatches(EpochSpec(minibatch_size=4)))
    assert [m.samples for m in minibatches] == [4, 4, 3]
    assert [m.streams["features"].data.shape[0] for m in minibatches] == [3, 3, 3]
    assert [m.streams["labels"].data.shape[0] for m in minibatches] == [3, 3, 3]
    classes = [m.streams["labels"].data.toarray().argmax(axis=1).tolist() for m in minibatches]
    assert classes == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert all(m.streams["features"].layout.frames == 3 for m in minibatches)
    assert reader.told == [
        "WARNING: left out: map.txt:4: cannot use image '3.png': the data are no image of a known format",
        "WARNING: left out: map.txt:8: cannot use image '7.png': no such file or directory",
    ]
    list(reader.minibatches(EpochSpec(epoch=1, minibatch_size=1)))
    assert len(reader.told) == 2, "each image is told and counted once"


def test_too_many_broken_images(images: Path, make) -> None:
    for number in (3, 5, 7):
        Path(f"{number}.png").write_bytes(b"nothing")
    for limit in (0, 1, 2):
        reader = make("ImageReader", legacy(top=f"randomize=none\nmaxErrors={limit}"))
        minibatches = reader.minibatches(EpochSpec(minibatch_size=4))
        with pytest.raises(DataError) as found:
            list(minibatches)
        line, number = (4, 6, 8)[limit], (3, 5, 7)[limit]
        expected = f"map.txt:{line}: cannot use image '{number}.png': the data are no image of a known format"
        assert str(found.value).splitlines()[0] == expected


def test_the_check_names_all_broken_images(images: Path, make) -> None:
    for number in (3, 5):
        Path(f"{number}.png").write_bytes(b"nothing")
    assert [str(error.where) for error in make("ImageReader", legacy()).check()] == ["map.txt:4", "map.txt:6"]


def test_a_minibatch_may_have_nothing_but_broken_images(images: Path, make) -> None:
    Path("3.png").write_bytes(b"")
    reader = make("ImageReader", legacy(top="randomize=none\nmaxErrors=1"))
    found = list(reader.minibatches(EpochSpec(minibatch_size=1)))
    assert [m.samples for m in found] == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]
    assert {m.streams["features"].data.shape for m in found} == {(1, 3, 4, 5)}


def composite(*parts: str, top: str = "") -> str:
    return "deserializers=(\n" + ":".join(f"[\n{part}\n]" for part in parts) + f"\n)\ntraceLevel=0\n{top}"


TEXT = 'type=CNTKTextFormatDeserializer\nfile="x.ctf"\ninput=[ x=[ dim=2 ; format=dense ] ]'


def test_joined_with_text(images: Path, make) -> None:
    Path("x.ctf").write_text("".join(f"{key} |x {key} 1\n" for key in (5, 3, 0, 1, 2, 9, 8, 7, 4, 10, 77)))
    Path("5.png").write_bytes(b"")
    part = deserializer("type=Transpose", top="type=ImageDeserializer\nmaxErrors=1")
    for first in (True, False):
        parts = (part, TEXT) if first else (TEXT, part)
        reader = make("Composite", composite(*parts))
        seen = []
        for minibatch in reader.minibatches(EpochSpec(minibatch_size=4)):
            keys = minibatch.streams["x"].data[:, 0].astype(int).tolist()
            seen += keys
            expected = [colours(key)[:, :, ::-1].transpose(2, 0, 1) for key in keys]
            assert (minibatch.streams["features"].data == np.array(expected)).all()
            assert (minibatch.streams["labels"].data.toarray().argmax(axis=1) == np.array(keys) % 4).all()
        assert sorted(seen) == [0, 1, 2, 3, 4, 7, 8, 9, 10]


def test_longer_sequences_beside_images(images: Path, make) -> None:
    """A broken image takes its whole sequence along."""
    Path("x.ctf").write_text("".join(f"{key} |x {key} {t}\n" for key in range(11) for t in range(1 + key % 3)))
    Path("4.png").write_bytes(b"")
    part = deserializer("type=Transpose", top="type=ImageDeserializer\nmaxErrors=1")
    (minibatch,) = make("Composite", composite(part, TEXT, top="randomize=none")).minibatches(
        EpochSpec(minibatch_size=99)
    )
    x, features = minibatch.streams["x"], minibatch.streams["features"]
    assert minibatch.samples == sum(1 + key % 3 for key in range(11))
    assert x.layout.slots == features.layout.slots == 10
    keys = [int(key) for key in features.layout.keys]
    assert (features.data == np.array([colours(key)[:, :, ::-1].transpose(2, 0, 1) for key in keys])).all()
    assert sorted(set(x.data[:, 0].astype(int).tolist())) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_two_streams_of_the_same_images_are_cropped_alike(images: Path, make) -> None:
    lines = Path("map.txt").read_text().splitlines()
    keyed = [f"{number}\t{line}\n" for number, line in enumerate(lines)]
    Path("map.txt").write_text("".join(keyed))
    Path("other.txt").write_text("".join(reversed(keyed)))
    crop = "type=Crop ; cropType=randomSide ; sideRatio=0.5"
    parts = [
        deserializer(crop, top="type=ImageDeserializer", file=file)
        .replace("features", name)
        .replace("labels", f"l{name}")
        for file, name in (("map.txt", "a"), ("other.txt", "b"))
    ]
    reader = make("Composite", composite(*parts))
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=4)):
        assert (minibatch.streams["a"].data == minibatch.streams["b"].data).all()


def test_one_deserializer_is_shuffled_as_the_reader(images: Path, make) -> None:
    part = deserializer("type=Scale ; width=5 ; height=4 ; channels=3", "type=Transpose", top="type=ImageDeserializer")
    found = read(make("Composite", composite(part)))
    expected = read(make("ImageReader", legacy(top="")))
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))
    assert not all((a == b).all() for a, b in zip(found, read(make("ImageReader", legacy())), strict=True))


def test_frame_mode(images: Path, make) -> None:
    part = deserializer("type=Transpose", top="type=ImageDeserializer")
    reader = make("Composite", composite(part, top="frameMode=true\nrandomize=none"))
    assert [s.sequence for s in reader.streams] == [False, False]
    assert (read(reader)[4] == colours(4)[:, :, ::-1].transpose(2, 0, 1)).all()


def test_the_cache_keeps_what_fits() -> None:
    pixels = np.zeros((2, 5, 1), np.uint8)
    cache = PixelCache(25, 5)
    for number in range(5):
        cache.put(number, pixels)
    assert [cache.get(number) is not None for number in range(5)] == [True, True, False, False, False]
    large = PixelCache(25, 6)
    large.put(0, pixels)
    assert large.get(0) is None
    cache.clear()
    assert cache.get(0) is None


def test_images_are_decoded_once(images: Path, make) -> None:
    reader = make("ImageReader", legacy())
    first = read(reader)
    for number in range(11):
        Path(f"{number}.png").unlink()
    assert all((a == b).all() for a, b in zip(first, read(reader, epoch=1), strict=True))
    again = make("ImageReader", legacy(top="randomize=none\ncacheSizeInBytes=0"))
    with pytest.raises(DataError):
        read(again)


def test_threads_end_with_the_reader(images: Path, make) -> None:
    reader = make("ImageReader", legacy(top="numCPUThreads=3"))
    read(reader)
    assert any(thread.name.startswith("cntk-images") for thread in threading.enumerate())
    reader.close()
    assert not any(thread.name.startswith("cntk-images") for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [("", "2", 2), ("numCPUThreads=4", "2", 4), ("numCPUThreads=-9", "2", 1), ("", "", 10)],
)
def test_threads_are_no_more_than_computing_has(images: Path, make, monkeypatch, asked, given, expected) -> None:
    """A rank's share of the processors is told by the variable that the computing threads go by."""
    made: list[int] = []

    def pool(workers: int, **named: str) -> ThreadPoolExecutor:
        made.append(workers)
        return ThreadPoolExecutor(workers, **named)

    monkeypatch.setattr("cntk_reader_image.maker.ThreadPoolExecutor", pool)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(10)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    reader = make("ImageReader", legacy(top=f"randomize=none\ncacheSizeInBytes=0\n{asked}"))
    read(reader)
    found = [thread for thread in threading.enumerate() if thread.name.startswith("cntk-images")]
    reader.close()
    assert made == [expected]
    assert 0 < len(found) <= expected


def test_for_writing_in_the_order_of_the_file(images: Path, make) -> None:
    found = read(make("ImageReader", legacy(top=""), for_writing=True))
    assert all((a == b).all() for a, b in zip(found, read(make("ImageReader", legacy())), strict=True))


@pytest.mark.parametrize("views", [1, 10])
def test_chunks_have_their_images(images: Path, make, monkeypatch: pytest.MonkeyPatch, views: int) -> None:
    """Numbers, classes and keys of all images of a chunk, each as often as there are views."""
    text = base64.b64encode(Path("1.png").read_bytes()).decode()
    Path("b.txt").write_text("".join(f"k{number}\t{number % 4}\t{text}\n" for number in range(5)))
    monkeypatch.setattr("cntk_reader_image.base64file.CHUNK_BYTES", 2 * (len(text) + 6))
    top = f"randomize=none\nmultiViewCrop={'true' if views > 1 else 'false'}"
    crop = "type=Crop ; cropType=multiView10 ; sideRatio=0.5"
    source = make("Base64ImageDeserializer", deserializer(crop, top=top, file="b.txt")).source
    assert [info.sequences for info in source.index()] == [2 * views, 2 * views, views]
    chunk = source.load(1)
    assert chunk.columns["features"].data.tolist() == list(range(2 * views, 4 * views))
    assert chunk.columns["labels"].data.indices.tolist() == [2] * views + [3] * views
    assert source.keys(1) == ["k2"] * views + ["k3"] * views
    picked = source.pick(np.array([2, 0]), np.array([views - 1, views]))
    assert picked.columns["features"].data.tolist() == [5 * views - 1, views]
    assert picked.columns["labels"].data.indices.tolist() == [0, 1]
