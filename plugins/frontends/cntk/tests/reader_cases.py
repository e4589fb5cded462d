"""Data files in each format, and how they are read: for the package, and for the original with its Python 3.6.

``python reader_cases.py FOLDER FILE`` writes what the installed ``cntk`` reads, in FOLDER, into FILE.
"""

import json
import os
import struct
import sys

import cntk as C
import numpy as np
from cntk.io import (
    CBFDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
)

MINIBATCHES = 6
FEATURES, PERIOD, KIND = 3, 100000, 9


def write(folder):
    """Write the files, but for data/plain.cbf: ``ctf2bin.py`` of the original made it of plain.ctf."""
    lines, plain = [], []
    for number in range(23):
        for step in range(1 + number * 7 % 5):
            first = f"{number} |w {(number * 3 + step) % 12}:1 |d {number} {step} {(number + step) % 9 / 4.0}"
            plain.append(first + "\n")
            lines.append(first + (f" |y {number % 3}:1\n" if step == 0 else "\n"))
    texts = {
        "sequences.ctf": lines,
        "plain.ctf": plain,
        "rows.ctf": [f"|x {n} {n * n % 7} |y {n % 3}\n" for n in range(57)],
        "other.ctf": [f"{n} |z {100 + n}\n" for n in reversed(range(23))],
        "long.ctf": [f"|u {n}\n" for n in range(400)],
        "states": [f"s{n}[2]\n" for n in range(4)],
        "list.scp": [],
        "labels.mlf": ["#!MLF!#\n"],
    }
    for number in range(7):
        frames = 4 + number * 5 % 6
        values = np.array([[number, step, number + step / 10.0] for step in range(frames)], ">f4")
        with open(os.path.join(folder, f"u{number}.htk"), "wb") as file:
            file.write(struct.pack(">iihh", frames, PERIOD, 4 * FEATURES, KIND) + values.tobytes())
        place = os.path.join(folder, f"u{number}.htk")
        texts["list.scp"].append(f"u{number}={place}[0,{frames - 1}]\n")
        texts["labels.mlf"].append(f'"u{number}.lab"\n')
        step = 0
        while step < frames:
            end, state = min(frames, step + 1 + (number + step) % 3), (number + step) % 4
            line = f"{step * PERIOD} {end * PERIOD} s{state}[2] -1.0 ph{state} -1.0\n"
            texts["labels.mlf"].append(line)
            step = end
        texts["labels.mlf"].append(".\n")
    for name, content in texts.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write("".join(content))


class Rows(UserDeserializer):
    """Four chunks of five sequences."""

    def stream_infos(self):
        return [
            StreamInformation("x", 0, "dense", np.float32, (2,)),
            StreamInformation("y", 1, "dense", np.float32, (1,)),
        ]

    def num_chunks(self):
        return 4

    def get_chunk(self, chunk_id):
        found = [10 * chunk_id + number for number in range(5)]
        return {
            "x": [np.full((1 + each % 10 % 3, 2), each, np.float32) for each in found],
            "y": [np.full((1, 1), each, np.float32) for each in found],
        }


def deserializers(folder):
    """Return what makes the deserializers, by name."""

    def path(name):
        return os.path.join(folder, name)

    def sequences(name="sequences.ctf", sized=False, labels=True):
        streams = {"w": StreamDef(field="w", shape=12, is_sparse=True), "d": StreamDef(field="d", shape=3)}
        if labels:
            streams["y"] = StreamDef(field="y", shape=3, is_sparse=True, defines_mb_size=sized)
        return CTFDeserializer(path(name), StreamDefs(**streams))

    def ctf(name, **shapes):
        return CTFDeserializer(
            path(name), StreamDefs(**{key: StreamDef(field=key, shape=n) for key, n in shapes.items()})
        )

    def features(context=(0, 0)):
        return HTKFeatureDeserializer(StreamDefs(f=StreamDef(shape=FEATURES, context=context, scp=path("list.scp"))))

    def labels(boundaries=False):
        return HTKMLFDeserializer(path("states"), StreamDefs(l=StreamDef(shape=4, mlf=path("labels.mlf"))), boundaries)

    binary = StreamDefs(w=StreamDef(field="w", shape=12, is_sparse=True), d=StreamDef(field="d", shape=3))
    return {
        "sequences": sequences,
        "sized": lambda: sequences(sized=True),
        "rows": lambda: ctf("rows.ctf", x=2, y=1),
        "long": lambda: ctf("long.ctf", u=1),
        "two": lambda: [sequences(), ctf("other.ctf", z=1)],
        "features": features,
        "context": lambda: features((1, 2)),
        "speech": lambda: [features((1, 1)), labels()],
        "boundaries": lambda: [features(), labels(True)],
        "binary": lambda: CBFDeserializer(path("plain.cbf"), binary),
        "python": lambda: [Rows()],
    }


PLAIN, ONCE, FRAMES = {"randomize": False}, {"max_sweeps": 1}, {"frame_mode": True}
CASES = {
    "ctf": ("sequences", 10, {}),
    "ctf, in the order of the file": ("sequences", 10, PLAIN),
    "ctf, a seed": ("sequences", 10, {"randomization_seed": 5}),
    "ctf, a window of samples": (
        "sequences",
        10,
        {"randomization_window_in_samples": 12, "randomization_window_in_chunks": 0},
    ),
    "ctf, a window of chunks": ("long", 61, {"randomization_window_in_chunks": 2}),
    "ctf, a window of samples of 400": (
        "long",
        61,
        {"randomization_window_in_samples": 50, "randomization_window_in_chunks": 0},
    ),
    "ctf, two sweeps": ("sequences", 30, {"max_sweeps": 2}),
    "ctf, 33 samples of rows": ("rows", 10, {"max_samples": 33}),
    "ctf, 73 samples in order": ("rows", 20, dict(PLAIN, max_samples=73)),
    "ctf, 33 samples of sequences": ("sequences", 10, {"max_samples": 33}),
    "ctf, frames": ("rows", 10, FRAMES),
    "ctf, a stream that says the size": ("sized", 5, ONCE),
    "ctf, a stream that says the size, in order": ("sized", 5, dict(ONCE, randomize=False)),
    "ctf, minibatches of 1": ("sequences", 1, PLAIN),
    "ctf, restored": ("sequences", 10, {"restore": 2}),
    "ctf, restored, in order": ("sequences", 10, dict(PLAIN, restore=5)),
    "ctf, restored, rows": ("rows", 25, {"restore": 3}),
    "two files": ("two", 10, {}),
    "two files, in order": ("two", 10, PLAIN),
    "htk": ("features", 9, {"max_sweeps": 2}),
    "htk, in order": ("features", 9, PLAIN),
    "htk, context": ("context", 9, PLAIN),
    "htk, frames": ("features", 9, dict(ONCE, frame_mode=True)),
    "htk, frames in order": ("features", 9, dict(ONCE, frame_mode=True, randomize=False)),
    "htk and mlf": ("speech", 9, {"max_sweeps": 2}),
    "htk and mlf, in order": ("speech", 9, PLAIN),
    "htk and mlf, frames": ("speech", 9, FRAMES),
    "htk and mlf, boundaries": ("boundaries", 9, PLAIN),
    "cbf": ("binary", 10, {}),
    "cbf, in order": ("binary", 10, PLAIN),
    "python, in order": ("python", 10, PLAIN),
}
WIDTHS = {"w": 12, "d": 3, "y": 3, "x": 2, "z": 1, "u": 1, "f": 3, "l": 4}
OTHER_WIDTHS = {"rows": {"y": 1}, "python": {"y": 1}, "context": {"f": 12}, "speech": {"f": 9}}


def read(folder, case):
    """Return minibatches: of each stream a number for each frame of each sequence, and whether a sweep ends."""
    name, size, settings = CASES[case]
    settings, widths = dict(settings), dict(WIDTHS, **OTHER_WIDTHS.get(name, {}))
    restore = settings.pop("restore", None)
    make, found, state = deserializers(folder)[name], [], None
    source = MinibatchSource(make(), **settings)
    for number in range(MINIBATCHES):
        found.append(_minibatch(source, size, widths))
        if number == restore:
            state = source.get_checkpoint_state()
    if state is not None:
        source = MinibatchSource(make(), **settings)
        source.restore_from_checkpoint(state)
        found += [_minibatch(source, size, widths) for _ in range(2)]
    return found


def _minibatch(source, size, widths):
    data = source.next_minibatch(size)
    found = {}
    for info, each in data.items():
        variable = C.sequence.input_variable(widths[info.m_name], is_sparse=each.is_sparse)
        sequences = [s.todense() if hasattr(s, "todense") else s for s in each.as_sequences(variable)]
        weights = np.arange(1, widths[info.m_name] + 1)
        sums = [np.asarray(s, np.float64).reshape(-1, len(weights)).dot(weights) for s in sequences]
        found[info.m_name] = [[[round(float(n), 3) for n in s] for s in sums], bool(each.end_of_sweep)]
    return found


if __name__ == "__main__":
    with open(sys.argv[2], "w") as target:
        json.dump({case: read(sys.argv[1], case) for case in CASES}, target, separators=(",", ":"), sort_keys=True)
