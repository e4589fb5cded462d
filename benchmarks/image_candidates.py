"""One candidate of ``images.py``, in a process of its own: reads a set of images again and again when it is asked to.

    python image_candidates.py ours|torch_pillow|torch_interpolate FOLDER SETTINGS

``SETTINGS`` is JSON: size, batch, workers, crop (least and most share of the side), cache. A line ``read N`` on
standard input reads N sweeps, and the answer is a line of JSON: images, wall and CPU seconds (of all its processes).
After ``sample`` the first minibatch without random transforms lies in a file in the folder.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MEAN = (103.0, 116.0, 123.0)
"""Subtracted from blue, green and red."""


class Candidate(ABC):
    """Something that reads minibatches of images."""

    @abstractmethod
    def sweep(self, number: int) -> Iterator[Any]:
        """Yield the minibatches of a sweep: arrays ``(images, 3, size, size)``."""

    @abstractmethod
    def sample(self) -> Any:
        """Return the first minibatch: the middle of each image, in the order of the file."""

    def processes(self) -> list[int]:
        """Return the other processes that work."""
        return []


class Ours(Candidate):
    """ImageReader."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._write_mean(settings["size"])
        low, high = settings["crop"]
        crop = f"cropType=randomSide ; sideRatio={low}:{high} ; jitterType=uniRatio"
        self._reader = self._make(crop, "auto")

    def _write_mean(self, size: int) -> None:
        values = " ".join(map(str, np.broadcast_to(MEAN, (size, size, 3)).ravel().tolist()))
        (self._folder / f"mean{size}.xml").write_text(
            f"<opencv_storage><Channel>3</Channel><Row>{size}</Row><Col>{size}</Col><MeanImg><rows>1</rows>"
            f"<cols>{3 * size * size}</cols><data>{values}</data></MeanImg></opencv_storage>"
        )

    def _make(self, crop: str, randomize: str) -> Any:
        from cntk_reader_image import ImageReader

        from cntk_core.api import Config, ReaderContext
        from cntk_core.api.builders import SourceText

        size, folder = self._settings["size"], self._folder
        text = (
            f'file="{folder}/map.txt"\nrandomize={randomize}\nnumCPUThreads={self._settings["workers"]}\n'
            f"cacheSizeInBytes={self._settings['cache']}\nlabels=[ labelDim=10 ]\n"
            f'features=[ width={size} ; height={size} ; channels=3 ; {crop} ; meanFile="{folder}/mean{size}.xml" ]\n'
        )
        config = Config.from_source(SourceText.of(text, "images"))
        return ImageReader(ImageReader.settings_from(config, "reader 'ImageReader'"), ReaderContext())

    def sweep(self, number: int) -> Iterator[Any]:
        """Yield the minibatches of a sweep."""
        from cntk_core.api import EpochSpec

        for minibatch in self._reader.minibatches(EpochSpec(epoch=number, minibatch_size=self._settings["batch"])):
            yield minibatch.streams["features"].data

    def sample(self) -> Any:
        """Return the first minibatch."""
        from cntk_core.api import EpochSpec

        reader = self._make("cropType=center ; sideRatio=1", "none")
        return next(reader.minibatches(EpochSpec(minibatch_size=self._settings["batch"]))).streams["features"].data


class TorchLoader(Candidate):
    """PyTorch's DataLoader with worker processes; ``resize`` turns a part of a picture into pixels, red first."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import torch
        from torch.utils.data import DataLoader

        lines = [line.split("\t") for line in (folder / "map.txt").read_text().splitlines()]
        paths, labels = [path for path, _ in lines], [int(label) for _, label in lines]
        self._torch, self._settings = torch, settings
        self._items = _Items(paths, labels, settings, self.resize)
        torch.set_num_threads(1)
        self._loader = DataLoader(
            self._items,
            batch_size=settings["batch"],
            shuffle=True,
            num_workers=settings["workers"],
            persistent_workers=True,
            prefetch_factor=4,
        )

    def resize(self, picture: Any, box: tuple[int, int, int, int], size: int) -> Any:
        """Return the pixels of a part."""
        raise NotImplementedError

    def sweep(self, number: int) -> Iterator[Any]:
        """Yield the minibatches of a sweep."""
        for images, _ in self._loader:
            yield images.numpy()

    def sample(self) -> Any:
        """Return the first minibatch."""
        items = _Items(self._items.paths, self._items.labels, {**self._settings, "crop": None}, self.resize)
        return np.stack([items[number][0].numpy() for number in range(self._settings["batch"])])

    def processes(self) -> list[int]:
        """Return the workers."""
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


class _Items:
    """The images of a map file; a torch Dataset in all but name, which it needs not have."""

    def __init__(self, paths: list[str], labels: list[int], settings: dict[str, Any], resize: Any) -> None:
        import torch

        self.paths, self.labels = paths, labels
        self._crop, self._size, self._resize = settings["crop"], settings["size"], resize
        self._mean = torch.tensor(MEAN).reshape(3, 1, 1)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import torch
        from PIL import Image

        with Image.open(self.paths[number]) as opened:
            opened.load()
            picture = opened if opened.mode == "RGB" else opened.convert("RGB")
        width, height = picture.size
        mirror = False
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        if self._crop is not None:
            share, across, down, turn = torch.rand(4).tolist()
            low, high = self._crop
            side = round(side * (low + (high - low) * share))
            left, top = int(across * (width - side + 1)), int(down * (height - side + 1))
            mirror = turn < 0.5
        pixels = self._resize(picture, (left, top, left + side, top + side), self._size)
        if mirror:
            pixels = pixels.flip(-1)
        return pixels.float().flip(0) - self._mean, self.labels[number]


class TorchPillow(TorchLoader):
    """Resized by Pillow, as torchvision does with pictures; it smooths what becomes smaller."""

    def resize(self, picture: Any, box: tuple[int, int, int, int], size: int) -> Any:
        """Return the pixels of a part."""
        from PIL import Image

        small = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
        return self._torch.from_numpy(np.array(small)).permute(2, 0, 1)


class TorchInterpolate(TorchLoader):
    """Resized by PyTorch without smoothing: the same pixels as ours."""

    def resize(self, picture: Any, box: tuple[int, int, int, int], size: int) -> Any:
        """Return the pixels of a part."""
        part = self._torch.from_numpy(np.array(picture.crop(box))).permute(2, 0, 1)[None]
        return self._torch.nn.functional.interpolate(part, (size, size), mode="bilinear")[0]


CANDIDATES = {"ours": Ours, "torch_pillow": TorchPillow, "torch_interpolate": TorchInterpolate}


def cpu_seconds(processes: list[int]) -> float:
    """Return the CPU time of this process and of some others."""
    tick = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def main() -> None:
    """Answer until standard input ends."""
    name, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    try:
        candidate = CANDIDATES[name](folder, settings)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps({"ready": name}), flush=True)
    done = 0
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "sample":
            np.save(folder / f"{name}.npy", candidate.sample())
            print(json.dumps({}), flush=True)
            continue
        images, began, cpu = 0, time.perf_counter(), cpu_seconds(candidate.processes())
        for sweep in range(done, done + int(rest[0])):
            for minibatch in candidate.sweep(sweep):
                images += len(minibatch)
        done += int(rest[0])
        wall, used = time.perf_counter() - began, cpu_seconds(candidate.processes()) - cpu
        print(json.dumps({"images": images, "wall": wall, "cpu": used}), flush=True)


if __name__ == "__main__":
    main()
