"""Compile the kernels of common networks for several processors, to be shipped in a wheel.

    python tools/ship_kernels.py [--into FOLDER] [--networks NAME ...] [--check FOLDER]

Trains and tests the networks of ``common_networks.cntk`` for one epoch of a few made-up samples, notes each kernel that
is compiled meanwhile, and compiles all of them for the levels of :data:`cntk_kit_engines.code_generator.LEVELS`. The
files lie where the wheel takes them from, but for ``--into``. Run it before the wheels are built (``make kernels``, or
``make dist`` for both); without the files, or with those of another version, kernels are compiled where they are
needed. Takes a few minutes. With ``--check`` nothing is compiled: it says whether the wheels of a folder bring them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from unittest import mock
from zipfile import ZipFile

import attrs
import numpy as np

from cntk_kit_engines import machine_code, native
from cntk_kit_engines.code_generator import LEVELS, CodeGenerator
from cntk_kit_engines.shipped_code import FOLDER, ShippedCode, digest_of, write_shipped

RECIPE = Path(__file__).with_name("common_networks.cntk")

LEARNERS: dict[str, tuple[str, ...]] = {
    "momentum": (),
    "plain": ("train=[SGD=[momentumPerMB=0]]",),
    "nesterov": ("train=[SGD=[useNAG=true]]",),
    "decay": ("train=[SGD=[L2RegWeight=0.0001]]",),
    "clipped": ("train=[SGD=[gradientClippingWithTruncation=true ; clippingThresholdPerSample=1]]",),
    "scaled down": ("train=[SGD=[gradientClippingWithTruncation=false ; clippingThresholdPerSample=1]]",),
    "adam": ("train=[SGD=[gradUpdateType=adam]]",),
    "fsAdaGrad": ("train=[SGD=[gradUpdateType=fsAdaGrad]]",),
    "adaGrad": ("train=[SGD=[gradUpdateType=adaGrad]]",),
    "rmsProp": ("train=[SGD=[gradUpdateType=rmsProp]]",),
}


@attrs.frozen
class Network:
    """A network of the recipe.

    Attributes:
        name: there.
        shape: of a sample, as BrainScript writes it.
        dim: elements of a sample.
        frames: of a sequence; 1 where there are none.
        sparse: the features are words.
    """

    name: str
    shape: str
    dim: int
    frames: int = 1
    sparse: bool = False


DENSE = ("dense1", "dense2", "dense3", "dropped", "scaled", "standardized", "normalized", "layerNormalized")
RECURRENT = ("lstm", "projected", "stabilized", "peepholes", "backwards", "bothWays")
IMAGES = ("lenet", "averaged", "resnet")
NETWORKS = {
    network.name: network
    for network in (
        *(Network(name, "40", 40) for name in DENSE),
        *(Network(name, "40", 40, frames=30) for name in RECURRENT),
        Network("words", "400", 400, frames=30, sparse=True),
        Network("embedded", "400", 400, sparse=True),
        *(Network(name, "16:16:3", 768) for name in IMAGES),
    )
}


def runs(network: Network) -> Iterator[list[str]]:
    """The command lines of a network: what differs from the recipe."""
    base = [f"net={network.name}", f"shape=({network.shape})", f"dim={network.dim}"]
    base.append(f"sparse={'sparse' if network.sparse else 'dense'}")
    # Time steps of few and of many rows are computed in different ways, and so are long sequences.
    sizes = ((80, 60), (256, 90), (256, 600)) if network.frames > 1 else ((80, 24), (256, 512))
    for labels in ("dense", "sparse"):
        for threads in (1, 2):
            for width, size in sizes:
                yield [
                    *base,
                    f"labelFormat={labels}",
                    f"numCPUThreads={threads}",
                    f"width={width}",
                    f"minibatchSize={size}",
                    "cpuKernels=compiled",
                ]
    small = [*base, f"width={sizes[-2][0]}", f"minibatchSize={sizes[-2][1]}", "cpuKernels=compiled"]
    yield [*small, "cpuProducts=blas"]
    if network.name in ("dense1", "words"):
        yield from ([*small, *changes] for changes in LEARNERS.values())


def write_data(network: Network, folder: Path, sequences: int, labels: str) -> None:
    """Write samples of a network as text."""
    rng = np.random.default_rng(1)
    with (folder / "data.ctf").open("w", encoding="utf-8") as file:
        for sequence in range(sequences):
            for _ in range(network.frames):
                if network.sparse:
                    features = f"{rng.integers(network.dim)}:1"
                else:
                    features = " ".join(f"{number:.3f}" for number in rng.random(network.dim))
                answer = int(rng.integers(16))
                given = f"{answer}:1" if labels == "sparse" else " ".join(str(int(n == answer)) for n in range(16))
                file.write(f"{sequence} |x {features} |y {given}\n")


class Recorder:
    """Notes what is compiled."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._load = machine_code.load_function

    def load(self, name: str, identity: str, write: Callable[[], str]) -> int:
        """Note a function, and load it."""
        text: list[str] = []

        def written() -> str:
            text.append(write())
            self.texts[digest_of(f"{name}\n{identity}")] = text[0]
            return text[0]

        return self._load(name, identity, written)


def record(networks: list[Network]) -> dict[str, str]:
    """Run networks; return the texts of their kernels in LLVM's language, by the digest of what they come from."""
    (script,) = entry_points(group="console_scripts", name="cntk")
    run: Callable[[list[str]], int] = script.load()
    recorder = Recorder()
    # Nothing is taken from the disk, and nothing that is shipped already.
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.dict(os.environ, {"CNTK_CACHE": name}),
        mock.patch.object(native, "load_function", recorder.load),
        mock.patch("cntk_kit_engines.byte_loops.load_function", recorder.load),
        mock.patch.object(machine_code, "shipped_code", return_value=ShippedCode(Path(name) / "none")),
    ):
        for network in networks:
            known = len(recorder.texts)
            for number, changes in enumerate(runs(network)):
                folder = Path(name) / f"{network.name}-{number}"
                folder.mkdir()
                labels = "sparse" if "labelFormat=sparse" in changes else "dense"
                write_data(network, folder, 24 if network.frames > 1 else 512, labels)
                said = io.StringIO()
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                    status = run([f"configFile={RECIPE}", f"folder={folder}", *changes])
                if status:
                    raise SystemExit(f"{said.getvalue()}\n'{network.name}' fails with {' '.join(changes)}")
            print(f"{network.name}: {len(recorder.texts) - known} kernels more", file=sys.stderr, flush=True)
    return recorder.texts


def ship(texts: dict[str, str], folder: Path) -> None:
    """Compile texts for all levels."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for level, (target, _) in LEVELS.items():
        generator = CodeGenerator(target)
        path = folder / f"{level}.kernels"
        write_shipped(path, {key: generator.compile(text) for key, text in texts.items()})
        print(f"{path}: {len(texts)} kernels, {path.stat().st_size / 1000:.0f} kB")


def lacking(folder: Path) -> list[str]:
    """Return what is wrong with the wheels of a folder: the kit's is not there, or lacks files of kernels."""
    wheels = sorted(folder.glob("cntk_kit_engines-*.whl"))
    if not wheels:
        return [f"{folder}: no wheel of cntk-kit-engines"]
    wanted = {f"cntk_kit_engines/shipped/{level}.kernels" for level in LEVELS}
    found = []
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            found += [f"{wheel}: lacks {name}" for name in sorted(wanted - set(archive.namelist()))]
    return found


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Compile the kernels of common networks, to be shipped.")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="where the files are written")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="of wheels that were built")
    arguments = parser.parse_args()
    if arguments.check is not None:
        problems = lacking(arguments.check)
        print("\n".join(problems or [f"{arguments.check}: the wheels bring the kernels"]))
        return 1 if problems else 0
    ship(record([NETWORKS[name] for name in arguments.networks]), arguments.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
