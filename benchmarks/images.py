"""Images per second: our reader beside PyTorch's DataLoader with as many workers, interleaved in one run.

    python benchmarks/images.py [--only photographs] [--workers 2] [--rounds 5] [--json F] [--peer-python PYTHON]

The images are made: photographs (JPEG, 500 x 375 pixels) for 224 x 224, small ones (PNG, 32 x 32), each with a random
crop, mirroring, resizing and the subtraction of a mean. Ours decodes with what ``cntk-reader-image[fast]`` brings, the
peers with Pillow; they have worker processes that stay, and prepare 4 minibatches each. ``small, again`` is the same
with decoded images kept, as ours has them from the second sweep on. Two peers: one resizes as torchvision does with
pictures, the other one gives the same pixels as ours, which is checked first. A round reads some sweeps with each
candidate in turn; the figures are the best round's images per second and the least CPU time per image, and the median
over the rounds of our images per second divided by those of the round's best peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
CLOSE = 2.0
"""The same pixels may differ by so much: one is rounded after both directions of resizing, the other in between."""


@attrs.frozen
class Set:
    """A set of images and what is done with them."""

    name: str
    kind: str
    columns: int
    rows: int
    images: int
    size: int
    crop: tuple[float, float]
    batch: int = 64
    sweeps: int = 1
    cache: int = 0


SETS = (
    Set("photographs", "jpg", 500, 375, images=256, size=224, crop=(0.5, 1.0)),
    Set("large photographs", "jpg", 1600, 1200, images=64, size=224, crop=(0.5, 1.0), batch=32),
    Set("small", "png", 32, 32, images=2048, size=32, crop=(0.8, 1.0), batch=128),
    Set("small, again", "png", 32, 32, images=2048, size=32, crop=(0.8, 1.0), batch=128, cache=1 << 28),
)


def make_images(folder: Path, given: Set) -> None:
    """Write images that compress about as photographs do: smooth colours with noise."""
    from PIL import Image

    random = np.random.default_rng(1)
    lines = []
    for number in range(given.images):
        coarse = random.integers(0, 256, (max(given.rows // 24, 2), max(given.columns // 24, 2), 3), dtype=np.uint8)
        smooth = Image.fromarray(coarse).resize((given.columns, given.rows), Image.Resampling.BICUBIC)
        noise = random.normal(0, 6, (given.rows, given.columns, 3))
        pixels = np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8)
        path = folder / f"{number}.{given.kind}"
        Image.fromarray(pixels).save(path, **({"quality": 90} if given.kind == "jpg" else {}))
        lines.append(f"{path}\t{number % 10}\n")
    (folder / "map.txt").write_text("".join(lines))


@attrs.define
class Server:
    """A candidate's process, the images per second of its rounds, and the least CPU time per image."""

    name: str
    process: subprocess.Popen[str]
    rates: list[float] = attrs.Factory(list)
    cpu: float = float("inf")

    @classmethod
    def start(cls, name: str, python: str, folder: Path, given: Set, workers: int) -> Server:
        """Start a candidate."""
        chosen = {
            "size": given.size,
            "batch": given.batch,
            "workers": workers,
            "crop": given.crop,
            "cache": given.cache,
        }
        command = [python, str(HERE / "image_candidates.py"), name, str(folder), json.dumps(chosen)]
        return cls(name, subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def ask(self, command: str) -> dict[str, Any]:
        """Send a command and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"missing": "it ended early"}

    def round(self, sweeps: int) -> None:
        """Read some sweeps and keep the figures."""
        answer = self.ask(f"read {sweeps}")
        self.rates.append(answer["images"] / answer["wall"])
        self.cpu = min(self.cpu, answer["cpu"] / answer["images"])


def measure(given: Set, workers: int, rounds: int, peer_python: str) -> dict[str, Any]:
    """Run the comparison for one set of images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder, given)
        pythons = {"ours": sys.executable, "torch_pillow": peer_python, "torch_interpolate": peer_python}
        servers = [Server.start(name, python, folder, given, workers) for name, python in pythons.items()]
        try:
            present = [server for server in servers if not _missing(server)]
            _compare(present, folder)
            for server in present:
                server.ask(f"read {given.sweeps}")
            for _ in range(rounds):
                for server in present:
                    server.round(given.sweeps)
            return {
                "set": given.name,
                "workers": workers,
                "images_per_second": {server.name: max(server.rates) for server in present},
                "rounds": {server.name: server.rates for server in present},
                "cpu_milliseconds": {server.name: server.cpu * 1e3 for server in present},
            }
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()


def _missing(server: Server) -> bool:
    answer = server.answer()
    if "missing" in answer:
        print(f"{server.name}: not here ({answer['missing']})", file=sys.stderr)
    return "missing" in answer


def _compare(servers: list[Server], folder: Path) -> None:
    """Check that the candidates that should give the same pixels do."""
    found: dict[str, NDArray[Any]] = {}
    for server in servers:
        server.ask("sample")
        found[server.name] = np.load(folder / f"{server.name}.npy")
    if {"ours", "torch_interpolate"} <= set(found):
        difference = float(abs(found["ours"] - found["torch_interpolate"]).max())
        if difference > CLOSE:
            raise SystemExit(f"the pixels differ by {difference}")


def show(record: dict[str, Any]) -> None:
    """Print the row of a set."""
    rates, cpu = record["images_per_second"], record["cpu_milliseconds"]
    peers = [name for name in rates if name != "ours"]
    cells = "  ".join(f"{name} {rates[name]:8.0f}/s {cpu[name]:7.3f} ms" for name in rates)
    ratio = f"{rates['ours'] / max(rates[name] for name in peers):.2f} times" if peers else ""
    if peers:
        best = zip(*(record["rounds"][name] for name in peers), strict=True)
        each = [ours / max(others) for ours, others in zip(record["rounds"]["ours"], best, strict=True)]
        ratio += f" (median {statistics.median(each):.2f})"
    by_cpu = f"{min(cpu[name] for name in peers) / cpu['ours']:.2f} by CPU time" if peers else ""
    print(f"{record['set']:18s} {cells}  {ratio} {by_cpu}", flush=True)


def main() -> None:
    """Measure the sets that are asked for."""
    parser = argparse.ArgumentParser(description="Time reading images beside PyTorch's DataLoader.")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer-python", default=sys.executable)
    given = parser.parse_args()
    records = []
    for one in SETS:
        if not given.only or one.name in given.only:
            records.append(measure(one, given.workers, given.rounds, given.peer_python))
            show(records[-1])
    if given.json:
        given.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
