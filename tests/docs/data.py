"""Files that pages speak of as the reader's own: small ones of the right kind, made of nothing but these lines."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

UTTERANCES = {"0": 12, "1": 15, "2": 11}
"""Names, which have to be numbers beside a text file, and numbers of frames."""

HTK_USER = 9
HTK_PERIOD = 100_000


def _frames(dim: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {name: random.standard_normal((length, dim)).astype(np.float32) for name, length in UTTERANCES.items()}


def htk(dim: int, outputs: bool = False) -> Callable[[Path], None]:
    """``train.scp``, ``train.mlf`` and ``states.list``; the names of ``out.scp`` for files that a page writes."""

    def make(folder: Path) -> None:
        for name, frames in _frames(dim).items():
            head = struct.pack(">iihh", len(frames), HTK_PERIOD, 4 * dim, HTK_USER)
            (folder / f"{name}.mfc").write_bytes(head + frames.astype(">f4").tobytes())
        (folder / "train.scp").write_text("".join(f"{name}.mfc\n" for name in UTTERANCES), encoding="utf-8")
        (folder / "states.list").write_text("sil[2]\nsil[3]\na[2]\na[3]\n", encoding="utf-8")
        lines = ["#!MLF!#"]
        for name, length in UTTERANCES.items():
            ends = [0, 3 * HTK_PERIOD, length * HTK_PERIOD]
            lines += [f'"*/{name}.lab"', f"{ends[0]} {ends[1]} sil[2]", f"{ends[1]} {ends[2]} a[3]", "."]
        (folder / "train.mlf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        rows = [f"{number} |l {frame % 133}:1\n" for number, n in enumerate(UTTERANCES.values()) for frame in range(n)]
        (folder / "labels.ctf").write_text("".join(rows), encoding="utf-8")
        if outputs:
            (folder / "out.scp").write_text("".join(f"{name}.out\n" for name in UTTERANCES), encoding="utf-8")

    return make


def kaldi(folder: Path) -> None:
    """``feats.scp`` with ``feats.ark``, and ``ali.ark``, as text; and what lattices need."""
    _lattices(folder)
    archive, listing, alignment = "", "", ""
    for name, frames in _frames(40).items():
        archive += f"{name} "
        listing += f"{name} feats.ark:{len(archive)}\n"
        archive += " [\n" + "\n".join(" ".join(f"{value:.4f}" for value in row) for row in frames) + " ]\n"
        alignment += f"{name} {' '.join(str(10 * frame) for frame in range(len(frames)))}\n"
    for file, text in (("feats.ark", archive), ("feats.scp", listing), ("ali.ark", alignment)):
        (folder / file).write_text(text, encoding="utf-8")


def _lattices(folder: Path) -> None:
    """``final.mdl`` of three phones with a state each, ``ids.ark``, and ``lat.scp`` with ``lat.ark``, as text."""
    states = "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State> <State> 1 </State>"
    topology = f"<TopologyEntry> <ForPhones> 1 2 3 </ForPhones> {states} </TopologyEntry>"
    model = f"<TransitionModel> <Topology> {topology} </Topology> <Triples> 3 1 0 0 2 0 1 3 0 2 </Triples>"
    alignment, archive, listing = "", "", ""
    for name, length in UTTERANCES.items():
        ways = [[1, 1, 2, *[first] * (length - 4), first + 1] for first in (3, 5)]
        alignment += f"{name} {' '.join(map(str, ways[0]))}\n"
        archive += f"{name} "
        listing += f"{name} lat.ark:{len(archive)}\n"
        arcs = "".join(f"0\t1\t{word}\t0.5,0,{'_'.join(map(str, ids))}\n" for word, ids in enumerate(ways, 1))
        archive += f"\n{arcs}1\n\n"
    texts = {"final.mdl": model, "ids.ark": alignment, "lat.ark": archive, "lat.scp": listing}
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def sounds(folder: Path) -> None:
    """``wav.scp`` and a sound for each name, ``words.txt`` with ``classes.txt``, labels of frames in ``frames.ctf``."""
    import soundfile

    random = np.random.default_rng(5)
    for name, frames in UTTERANCES.items():
        soundfile.write(folder / f"{name}.wav", 0.1 * random.standard_normal(200 + 80 * (frames - 1)), 8000)
    (folder / "wav.scp").write_text("".join(f"{name} {name}.wav\n" for name in UTTERANCES), encoding="utf-8")
    (folder / "classes.txt").write_text("low\nhigh\nnone\n", encoding="utf-8")
    (folder / "words.txt").write_text("0 low\n1 none\n2 high\n", encoding="utf-8")
    rows = [f"{name} |labels {frame % 3}:1\n" for name, count in UTTERANCES.items() for frame in range(count)]
    (folder / "frames.ctf").write_text("".join(rows), encoding="utf-8")


def images(folder: Path) -> None:
    """Ten pictures with ``train_map.txt``, ``mean.xml`` and ``boxes.txt``."""
    from PIL import Image

    random = np.random.default_rng(3)
    for number in range(10):
        Image.fromarray(random.integers(256, size=(40, 48, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    (folder / "train_map.txt").write_text("".join(f"{n}.png\t{n}\n" for n in range(10)), encoding="utf-8")
    (folder / "boxes.txt").write_text("".join(f"{n} |boxes 0 0 1 1\n" for n in range(10)), encoding="utf-8")
    values = " ".join(["128"] * 32 * 32 * 3)
    (folder / "mean.xml").write_text(
        f'<?xml version="1.0"?><opencv_storage><Channel>3</Channel><Row>32</Row><Col>32</Col>'
        f'<MeanImg type_id="opencv-matrix"><rows>1</rows><cols>3072</cols><dt>f</dt><data>{values}</data></MeanImg>'
        f"</opencv_storage>",
        encoding="utf-8",
    )


def idx(folder: Path) -> None:
    """Six pictures of 28 x 28 pixels and their digits, compressed, under the names of MNIST."""
    pixels = np.arange(6 * 784).astype(np.uint8)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">iiii", 2051, 6, 28, 28) + pixels.tobytes())
    )
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">ii", 2049, 6) + bytes(range(6))))


def sentences(folder: Path) -> None:
    """Text with classes of words, and words with tags."""
    text = "</s> show me flights </s>\n</s> flights to denver please </s>\n" * 4
    words = sorted({*text.split(), "<unk>"})
    words += [f"word{number}" for number in range(10000 - len(words))]
    vocabulary = "".join(f"{number}\t{text.count(word)}\t{word}\t{number // 3}\n" for number, word in enumerate(words))
    for name, content in (("train.txt", text), ("words.txt", "\n".join(words) + "\n"), ("vocab.txt", vocabulary)):
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "tagged.txt").write_text("show O\nme O\nflights O\nto O\ndenver B-toloc\n\n" * 3, encoding="utf-8")
    tags = ["O", "B-toloc", "EOS", *(f"tag{number}" for number in range(124))]
    (folder / "tags.txt").write_text("\n".join(tags) + "\n", encoding="utf-8")
    (folder / "known.txt").write_text("\n".join([*words[:943], "EOS"]) + "\n", encoding="utf-8")
    (folder / "map.txt").write_text("".join(f"{word} {word}\n" for word in words[:943]), encoding="utf-8")


def two_files(folder: Path) -> None:
    """``x.ctf`` and ``y.cbf`` with the same number of sequences, and pictures as IDX files."""
    from cntk_kit_recipes.cli import main

    for name in "xy":
        (folder / f"{name}.ctf").write_text("|x 1 2 3 4 5 6 7 8 9 |y 1\n" * 4, encoding="utf-8")
    reader = f'reader=[readerType=CNTKTextFormatReader;file="{folder / "y.ctf"}";input=[y=[dim=1;format=dense]]]'
    (folder / "y.cntk").write_text(f"command=T\nT=[action=train;{reader}]\n", encoding="utf-8")
    assert main(["convert-data", str(folder / "y.cntk"), "-o", str(folder / "y.cbf")]) == 0
    idx(folder)


def tagger(folder: Path) -> None:
    """A model of words with tags, ``run/tagger.dnn``."""
    from cntk_builder_python import Dense, Embedding, Graph, Recurrence, RNNStep, Sequential

    from cntk_core.network.model_file import save_model

    graph = Graph()
    word = graph.input("word", 10, sparse=True)
    graph.output(Sequential(Embedding(4), Recurrence(RNNStep(5)), Dense(33))(word), "z")
    (folder / "run").mkdir(exist_ok=True)
    save_model(graph.finish(), folder / "run/tagger.dnn")


DATA: dict[str, Callable[[Path], None]] = {
    "docs/audio.md": sounds,
    "docs/data.md": two_files,
    "docs/htk.md": htk(33, outputs=True),
    "docs/images.md": images,
    "docs/kaldi.md": kaldi,
    "docs/language-readers.md": sentences,
    "docs/python-networks.md": tagger,
    "plugins/readers/audio/README.md": sounds,
    "plugins/readers/htk/README.md": htk(39),
    "plugins/readers/image/README.md": images,
    "plugins/readers/kaldi/README.md": kaldi,
    "plugins/readers/mnist/README.md": idx,
}
"""What makes them, by page."""
