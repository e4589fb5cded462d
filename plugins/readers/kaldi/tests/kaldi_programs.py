"""Stand-ins for the Kaldi programs that recipes name: small scripts of the same words, for a folder on the PATH."""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = f"""#!{sys.executable}
import subprocess, sys

def source(specifier):
    path = specifier.partition(":")[2]
    if path == "-":
        return sys.stdin.buffer.read()
    if path.endswith("|"):
        return subprocess.run(path[:-1], shell=True, check=True, stdout=subprocess.PIPE).stdout
    return open(path, "rb").read()

print(" ".join(sys.argv), file=sys.stderr)
"""
_PROGRAMS = {
    # Two transitions for each pdf, counted from 1, as in a model with self-loops.
    "ali-to-pdf": """
model, given, target = sys.argv[1:]
assert target == "ark:-" and open(model).read() == "a model"
for line in source(given).decode().splitlines():
    key, *transitions = line.split()
    print(key, *((int(one) - 1) // 2 for one in transitions))
""",
    "ali-to-post": """
for line in source(sys.argv[1]).decode().splitlines():
    key, *classes = line.split()
    print(key, *(f"[ {one} 1 ]" for one in classes))
""",
    "feat-to-len": """
import struct
for line in source(sys.argv[1]).decode().splitlines():
    key, place = line.split()
    path, offset = place.split(":")
    rows = struct.unpack_from("<i", open(path, "rb").read(), int(offset) + 6)[0]
    print(key, rows)
""",
    # The best class of each frame, without a graph.
    "latgen-faster-mapped": """
import struct
data, at = source(sys.argv[-2]), 0
with open(sys.argv[-1].partition(":")[2], "w") as lattices:
    while at < len(data):
        end = data.index(b" ", at)
        key, at = data[at:end].decode(), end + 1
        assert data[at:at + 5] == b"\\0BFM ", data[at:at + 5]
        rows, columns = struct.unpack_from("<xixi", data, at + 5)
        at += 15
        values = struct.unpack_from(f"<{rows * columns}f", data, at)
        at += 4 * rows * columns
        best = [max(range(columns), key=values[r * columns:(r + 1) * columns].__getitem__) for r in range(rows)]
        print(key, *best, file=lattices)
""",
}


def write_programs(folder: Path) -> None:
    """Write the programs into a folder."""
    folder.mkdir()
    for name, text in _PROGRAMS.items():
        (folder / name).write_text(_HEAD + text)
        (folder / name).chmod(0o755)
