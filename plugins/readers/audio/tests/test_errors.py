"""Broken files, lists and blocks: each one message with its place and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from sounds import FRAMES, RATE, F, L, wave

from cntk_core.api import CntkError, EpochSpec

FORMS = (
    "\n    A line is the key of an utterance and its file, perhaps with the seconds where it begins and ends "
    "behind them."
)
RELATIVE = "\n    A relative name starts at the directory in which the command runs."
CUT = "\n    The file is damaged or was not copied to its end."


def read(make, text: str) -> None:
    for _ in make(text).minibatches(EpochSpec(minibatch_size=100)):
        pass


LISTS = {
    "no file": ("utt", "wav.scp:1: 'utt' has no file" + FORMS),
    "command": ("utt sph2pipe x.sph |", "wav.scp:1: 'sph2pipe x.sph |' is a command, which is not run\n"
                "    Run it once and write what it gives to wav or flac files."),
    "twice": ("utt utt-a.wav\nutt utt-a.wav", "wav.scp:2: the key 'utt' stands in line 1 already\n"
              "    Each utterance has one line."),
    "backwards": ("utt utt-a.wav 2 1", "wav.scp:1: the piece from 2 to 1 s ends before it begins" + FORMS),
    "beyond": ("utt utt-a.wav 0 1", "wav.scp:1: the piece ends at 1 s, and 'utt-a.wav' at 0.125 s\n"
               "    The list belongs to another file."),
    "missing": ("utt none.wav", "wav.scp:1: cannot read 'none.wav': no such file" + RELATIVE),
    "no sound": ("utt words.txt", "wav.scp:1: cannot read 'words.txt': format not recognised\n"
                 "    Is it a sound file (wav, flac, ogg), and whole?"),
    "rate": ("utt fast.wav", "wav.scp:1: 'fast.wav' has 16000 samples in a second, and sampleRate=8000\n"
             "    Set sampleRate=16000, or resample=true."),
    "short": ("utt utt-a.wav 0 0.02", "wav.scp:1: 'utt' has 160 samples, and a frame 200\n"
              "    Leave the utterance out."),
    "cut": ("utt cut.wav", "wav.scp:1: 'cut.wav' ends at byte 100, and its head says 2044" + CUT),
    "empty": ("", "wav.scp: the list has no utterances"),
    "several": ("a none.wav\nb b.wav", "wav.scp: 2 malformed utterances, maxErrors=0\n"
                f"    wav.scp:1: cannot read 'none.wav': no such file{RELATIVE.replace(chr(10), chr(10) + '    ')}\n"
                f"    wav.scp:2: cannot read 'b.wav': no such file{RELATIVE.replace(chr(10), chr(10) + '    ')}\n"
                "    `cntk check-data` lists them all; maxErrors=n leaves out up to n."),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_lists(make, case: str) -> None:
    text, message = LISTS[case]
    soundfile.write("fast.wav", wave(500), 2 * RATE)
    Path("cut.wav").write_bytes(Path("utt-a.wav").read_bytes()[:100])
    Path("wav.scp").write_text(text)
    with pytest.raises(CntkError) as caught:
        read(make, F)
    assert str(caught.value) == message


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_files_of_programs_in_a_pipe(make, size: int) -> None:
    """They do not know their length when they write the head."""
    data = Path("utt-a.wav").read_bytes()
    Path("piped.wav").write_bytes(data[:4] + size.to_bytes(4, "little") + data[8:])
    Path("wav.scp").write_text("utt-a piped.wav\n")
    (minibatch,) = make(F).minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.samples == FRAMES["utt-a"]


def test_a_channel_that_there_is_not(make) -> None:
    Path("wav.scp").write_text("utt utt-a.wav\n")
    with pytest.raises(CntkError) as caught:
        read(make, F.replace(" ]", " ; channel=1 ]"))
    assert str(caught.value) == (
        "wav.scp:1: 'utt-a.wav' has 1 channels, and channel=1\n    Channels are counted from 0."
    )


def test_files_that_change_while_they_are_read(make) -> None:
    reader = make(F)
    assert not list(reader.check())
    next(iter(reader.minibatches(EpochSpec(minibatch_size=1))))
    fresh = make(F)
    assert not list(fresh.check())
    fresh.order()
    soundfile.write("utt-c.wav", np.zeros(300), RATE)
    with pytest.raises(CntkError) as caught:
        for _ in fresh.minibatches(EpochSpec(minibatch_size=100)):
            pass
    assert str(caught.value) == f"wav.scp:3: 'utt-c.wav' has 300 of 1480 samples{CUT}"
    Path("utt-c.wav").write_bytes(b"RIFFxxxx")
    with pytest.raises(CntkError, match="cannot read 'utt-c"):
        for _ in fresh.minibatches(EpochSpec(minibatch_size=100)):
            pass


@pytest.mark.parametrize(("allowed", "fails"), [(1, True), (2, False)])
def test_max_errors(make, allowed: int, fails: bool) -> None:
    Path("wav.scp").write_text("a none.wav\nutt-a utt-a.wav\nb\n")
    reader = make(f"maxErrors={allowed}\n{F}")
    if fails:
        with pytest.raises(CntkError, match="2 malformed utterances, maxErrors=1"):
            next(iter(reader.minibatches(EpochSpec(minibatch_size=100))))
        return
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.samples == FRAMES["utt-a"]
    assert [line.split(":")[:3] for line in reader.told] == [
        ["WARNING", " left out", " wav.scp"], ["WARNING", " left out", " wav.scp"]
    ]  # fmt: skip
    assert len(list(reader.check())) == 2


LABELS = {
    "two": ("utt-a low high", L, "words.txt:1: 'utt-a' has 2 labels\n"
            "    A line is the key of an utterance and its class."),
    "none": ("utt-a", L, "words.txt:1: 'utt-a' has 0 labels\n    A line is the key of an utterance and its class."),
    "unknown": ("utt-a hihg", L, "words.txt:1: labelMappingFile has no class 'hihg'; did you mean 'high'?\n"
                "    It has a name to a line, in the order of the classes."),
    "twice": ("utt-a low\nutt-a low", L, "words.txt:2: the key 'utt-a' stands in line 1 already\n"
              "    Each utterance has one line."),
    "no number": ("utt-a low", L.replace(" ; labelMappingFile=classes.txt", ""), "words.txt:1: 'low' is no number of a "
                  "class\n    labelMappingFile has the names of classes."),
    "number": ("utt-a 3", L.replace(" ; labelMappingFile=classes.txt", ""), "words.txt:1: '3' is class 3, but "
               "labelDim=3\n    Classes are counted from 0; labelDim is how many there are."),
    "frames": ("utt-a low high", L.replace("labelDim", "labelType=alignment ; labelDim"), "words.txt:1: 'utt-a' has 11 "
               "frames, and 2 classes\n    An alignment was made with the same frames."),
    "tokens": ("utt-d low high", L.replace("labelDim", "labelType=ctc ; labelDim"), "words.txt:1: 'utt-d' has 1 "
               "frames, and 2 tokens\n    CTC needs a frame for each token; leave the utterance out."),
    "no file": (None, L, "r.cntk:2:10: cannot open the list of labels 'words.txt': no such file or directory"
                + RELATIVE),
    "binary": (b"utt-a \xff", L, "words.txt:1: this is no list of labels\n    A list is text in UTF-8."),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_labels(make, case: str) -> None:
    data, block, message = LABELS[case]
    Path("words.txt").unlink()
    if data is not None:
        Path("words.txt").write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(CntkError) as caught:
        read(make, F + block)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb c d\n", "classes.txt:2: 'b c d' names no class\n    A line is the name of a class, perhaps with its "
         "number behind it."),
        ("a x\n", "classes.txt:1: 'a x' names no class\n    A line is the name of a class, perhaps with its number "
         "behind it."),
        ("a\n\na 7\n", "classes.txt:3: 'a' is there twice\n    Each class has one line."),
    ],
)  # fmt: skip
def test_names_of_classes(make, text: str, message: str) -> None:
    Path("classes.txt").write_text(text)
    with pytest.raises(CntkError) as caught:
        make(F + L)
    assert str(caught.value) == message


STREAM = "stream 'features' of reader 'AudioReader': "
BLOCKS = {
    "bands": ("dim=150", f"r.cntk:1:1: {STREAM}150 bands are too many for frames of 200 samples: some are empty"),
    "speed": ("speed=0.9:9", f"r.cntk:1:56: {STREAM}speed must be numbers from 0.25 to 4\n"
              "    speed=0.9:1:1.1 reads each utterance three times."),
    "noise": ("noiseSnr=9:3", f"r.cntk:1:56: {STREAM}noiseSnr must be a number of dB, or the least and the largest\n"
              "    noiseSnr=5:20 draws it for each utterance."),
    "three": ("noiseSnr=1:2:3", f"r.cntk:1:56: {STREAM}noiseSnr must be a number of dB, or the least and the largest\n"
              "    noiseSnr=5:20 draws it for each utterance."),
    "chance": ("noiseSnr=1 ; noiseChance=2", f"r.cntk:1:69: {STREAM}noiseChance must be from 0 to 1"),
    "no noise": ("noiseSeed=2", f"r.cntk:1:56: {STREAM}noiseSeed is given, and noiseSnr is not\n"
                 "    noiseSnr=5:20 adds noise."),
    "noise list": ("noiseSnr=1 ; noiseFile=none", "r.cntk:1:69: cannot open the list of sound files 'none': no such "
                   "file or directory" + RELATIVE),
    "no noise in it": ("noiseSnr=1 ; noiseFile=empty", "r.cntk:1:69: the list of noise has no files\n"
                       "    Without noiseFile there is white noise."),
    "wrong noise": ("noiseSnr=1 ; noiseFile=wrong", "wrong:1: 'a' has no file" + FORMS),
}  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(make, case: str) -> None:
    text, message = BLOCKS[case]
    Path("empty").write_text("\n")
    Path("wrong").write_text("a\n")
    block = F.replace("dim=5", text) if case == "bands" else F.replace(" ]", f" ; {text} ]")
    with pytest.raises(CntkError) as caught:
        make(block)
    assert str(caught.value) == message


def test_input_of_the_network(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(F, inputs={"features": (3,)})
    assert str(caught.value) == (
        "r.cntk:1:12: stream 'features' has samples of dimension 5, but the network's input 'features' is [3]\n"
        "    Change dim, deltas and contextWindow of the stream, or the input of the network."
    )


def test_no_features(make) -> None:
    with pytest.raises(CntkError, match="has no block of features"):
        make(L)


def test_noise_that_cannot_be_read(make) -> None:
    Path("noise.scp").write_text("n none.wav\n")
    with pytest.raises(CntkError) as caught:
        read(make, F.replace(" ]", " ; noiseSnr=1 ; noiseFile=noise.scp ]"))
    assert str(caught.value) == "noise.scp:1: cannot read 'none.wav': no such file" + RELATIVE
