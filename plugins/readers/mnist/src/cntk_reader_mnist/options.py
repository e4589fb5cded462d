"""What a recipe may say to the reader, and how it is read."""

from __future__ import annotations

from pathlib import Path

import attrs

from cntk_core.api import CntkError, Config, ConfigError, Location, collect, option, options, raise_problems
from cntk_core.api.readers import ReaderKeys


@options
class ImageKeys:
    """The keys of a block of images."""

    file: Path = option(doc="IDX file of images.")
    dim: int | None = option(default=None, doc="Pixels of an image; by default what the file says.")
    scale: float = option(default=1.0, doc="Every pixel, 0 to 255, is multiplied with this.")


@options
class LabelKeys:
    """The keys of a block of labels."""

    file: Path = option(doc="IDX file of labels.")
    label_dim: int = option(default=10, doc="Number of classes.", validator=attrs.validators.ge(1))


@options
class ImageOptions(ImageKeys):
    """A stream of images, with its place in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class LabelOptions(LabelKeys):
    """A stream of labels, one-hot, with its place in the recipe."""

    name: str = attrs.field()
    where: Location | None = None


@options
class MNISTReaderOptions(ReaderKeys):
    """Everything that a recipe says to the reader."""

    streams: tuple[ImageOptions | LabelOptions, ...] = attrs.field()


def read_options(block: Config, what: str) -> MNISTReaderOptions:
    """Read the reader's block and its sub-blocks, one for each stream. Raises all errors together."""
    errors: list[CntkError] = []
    names = block.block_names()
    keys = collect(lambda: block.bind(ReaderKeys, ignore=names, what=what), errors)
    streams = [collect(lambda name=name: _read_stream(block, name, what), errors) for name in names]
    if not any(isinstance(stream, ImageOptions) for stream in streams) and not errors:
        errors.append(
            ConfigError(
                f"{what} has no block with images",
                where=block.where,
                hint="Add features=[ file=train-images-idx3-ubyte ] and labels=[ file=... ; labelDim=10 ].",
            )
        )
    raise_problems(errors)
    assert keys is not None
    return MNISTReaderOptions(**attrs.asdict(keys, recurse=False), streams=tuple(streams))


def _read_stream(block: Config, name: str, what: str) -> ImageOptions | LabelOptions:
    """Read a stream's block: labels if it is called so or has labelDim, else images."""
    section = block.section(name)
    told = f"stream '{name}' of {what}"
    if section.own("file") is None:
        raise section.missing("file")
    where = section.location("file")
    if name.lower() == "labels" or section.own("labelDim") is not None:
        labels = section.bind(LabelKeys, what=told)
        return LabelOptions(name=name, where=where, file=labels.file, label_dim=labels.label_dim)
    images = section.bind(ImageKeys, what=told)
    return ImageOptions(name=name, where=where, file=images.file, dim=images.dim, scale=images.scale)
