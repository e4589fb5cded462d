"""Pictures: a folder for each class, or a map file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cntk_core.api import DataError, Location, UnsupportedError
from cntk_tool_init.found import CLASSIFY, Data, Prepared, Stream, Wishes, several, some
from cntk_tool_init.places import from_list

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
MOST_SIDE, LEAST_SIDE = 64, 8


class Pictures(Data):
    """Pictures with their classes.

    Args:
        title: what they come from.
        where: that place.
        items: each picture with the number of its class.
        classes: their names.
        wishes: what the user says.

    Raises:
        DataError: no picture can be read.
        UnsupportedError: Pillow is not installed.
    """

    tasks = (CLASSIFY,)
    takes_second = False

    def __init__(
        self, title: str, where: Path, items: Sequence[tuple[Path, int]], classes: Sequence[str], wishes: Wishes
    ) -> None:
        self.title = title
        self.classes = classes
        self._wishes = wishes
        self.broken: list[Path] = []
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.modes: set[str] = set()
        self.items = [item for item in items if self._look(item[0])]
        if not self.items:
            raise DataError("there is no picture that can be read", where=Location(str(where)))
        self._wishes = wishes.of(max(Counter(label for _, label in self.items).values()))

    def _look(self, path: Path) -> bool:
        image: Any
        try:
            from PIL import Image
        except ImportError:
            raise UnsupportedError("pictures need Pillow", hint='pip install "cntk-reader-image[fast]"') from None
        try:
            with Image.open(path) as image:
                self.sizes.update([image.size])
                self.modes.add(image.mode)
        except (OSError, ValueError, SyntaxError):
            self.broken.append(path)
            return False
        return True

    @classmethod
    def of_folder(cls, folder: Path, wishes: Wishes) -> Pictures:
        """Take a folder with a folder for each class."""
        classes = [one for one in sorted(folder.iterdir()) if one.is_dir() and pictures_in(one)]
        items = [(path, number) for number, one in enumerate(classes) for path in pictures_in(one)]
        return cls("folders of pictures", folder, items, [one.name for one in classes], wishes)

    @classmethod
    def of_map(cls, path: Path, wishes: Wishes) -> Pictures:
        """Take a map file."""
        items = []
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
            parts = line.split("\t")
            if len(parts) < 2 or not parts[-1].strip().isdigit():
                raise DataError("a line of a map file is: path TAB class", where=Location(str(path), number))
            items.append((resolved(path, parts[-2]), int(parts[-1])))
        count = 1 + max(label for _, label in items)
        return cls("a map file of pictures", path, items, [str(number) for number in range(count)], wishes)

    @property
    def side(self) -> tuple[int, int]:
        """The size that the network is given: that of most pictures, but not larger than need be."""
        width, height = self.sizes.most_common(1)[0][0]
        factor = min(1.0, MOST_SIDE / max(width, height))
        return max(LEAST_SIDE, round(width * factor)), max(LEAST_SIDE, round(height * factor))

    @property
    def channels(self) -> int:
        """1 for gray pictures, else 3."""
        return 1 if self.modes <= {"L", "1", "I;16", "LA"} else 3

    def seen(self) -> Sequence[str]:
        """Pictures, sizes and classes."""
        counts = Counter(label for _, label in self.items)
        sizes = some([f"{w} x {h}" for (w, h), _ in self.sizes.most_common()])
        return [
            f"{several(len(self.items), 'picture')} in {'gray' if self.channels == 1 else 'colour'}: {sizes}",
            f"{several(len(self.classes), 'class', 'classes')}: "
            + some([f"{name} ({counts[number]})" for number, name in enumerate(self.classes)]),
        ]

    @property
    def odd(self) -> Sequence[str]:
        """Broken files, sizes, small classes."""
        lines = [f"{path} is no picture that can be read, and is left out" for path in self.broken[:5]]
        if len(self.broken) > 5:
            lines.append(f"so are {len(self.broken) - 5} more")
        if len(self.sizes) > 1:
            lines.append(f"{several(len(self.sizes), 'size')}; all are made {self.side[0]} x {self.side[1]}")
        counts = Counter(label for _, label in self.items)
        few = [self.classes[number] for number in range(len(self.classes)) if counts[number] < 5]
        if few:
            lines.append(f"fewer than five pictures: {some(few)}")
        if len(self.classes) < 2:
            lines.append("there is one class, so nothing can be told apart")
        return lines

    @property
    def writes(self) -> Sequence[str]:
        """Map files and the names of classes."""
        return ["train_map.txt", *(["heldout_map.txt"] if self._wishes.every else []), "classes.txt"]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write map files."""
        wishes = self._wishes
        parts: list[list[str]] = [[], []]
        seen: Counter[int] = Counter()
        for path, label in self.items:  # of each class as large a part
            parts[int(wishes.holds_out(seen[label]))].append(f"{from_list(folder, path)}\t{label}\n")
            seen[label] += 1
        names = self.writes[:-1]
        what = ("pictures to learn from", "pictures that are held out")
        files = []
        for name, part, text in zip(names, parts, what, strict=False):
            (folder / name).write_text("".join(part), encoding="utf-8")
            files.append((name, f"{len(part):,} {text}"))
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in self.classes), encoding="utf-8")
        files.append(("classes.txt", "the classes, by number"))
        (width, height), channels = self.side, self.channels
        readers = [self._reader(name, training=name == names[0]) for name in names]
        return Prepared(
            Stream("features", width * height * channels),
            Stream("labels", len(self.classes)),
            readers[0],
            readers[1] if len(readers) > 1 and parts[1] else (),
            samples=len(parts[0]),
            image=(width, height, channels),
            files=files,
        )

    def _reader(self, file: str, *, training: bool) -> list[str]:
        (width, height), channels = self.side, self.channels
        crop = (
            "cropType = randomSide ; sideRatio = 0.85:1 ; jitterType = uniRatio ; hflip = false"
            if training
            else "cropType = center"
        )
        return [
            "readerType = ImageReader",
            f'file = "{file}"',
            f"randomize = {'auto' if training else 'none'}",
            "features = [",
            f"    width = {width} ; height = {height} ; channels = {channels}",
            f"    {crop}",
            "]",
            f"labels = [ labelDim = {len(self.classes)} ]",
        ]


def pictures_in(folder: Path) -> list[Path]:
    """Return the files of a folder that are called as pictures are."""
    return [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES and path.is_file()]


def resolved(listing: Path, name: str) -> Path:
    """Return a file that a list names: from here, or from the folder of the list."""
    name = name.strip()
    if name.startswith("..."):
        return listing.parent / name[3:].lstrip("/\\")
    return Path(name) if Path(name).exists() else listing.parent / name
