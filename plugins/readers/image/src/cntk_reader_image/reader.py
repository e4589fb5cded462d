"""The readers: options to a source of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cntk_core.api import (
    Cache,
    CntkError,
    Config,
    ConfigError,
    Location,
    ReaderContext,
    StreamInfo,
    raise_problems,
    show,
)
from cntk_core.api.readers import ChunkedReader
from cntk_reader_image.base64file import read_base64
from cntk_reader_image.decode import decode
from cntk_reader_image.geometry import VIEWS, CropRule
from cntk_reader_image.limits import BrokenImageError, Limits
from cntk_reader_image.listing import Images, read_map
from cntk_reader_image.maker import ErrorBudget, ImageMaker, broken_image
from cntk_reader_image.matrices import read_intensity, read_mean
from cntk_reader_image.options import ImageOptions, ScaleKeys, Transform, read_deserializer, read_legacy
from cntk_reader_image.pipeline import Pipeline
from cntk_reader_image.source import ImageSource
from cntk_reader_image.steps import Color, Crop, Intensity, Mean, Scale, Step

Trace = Callable[[str], None] | None


class ImageDeserializer(ChunkedReader):
    """Reads the images that a map file names, and their classes. Images are decoded and changed in worker threads."""

    options: ClassVar[type] = ImageOptions
    requires_api: ClassVar[str] = "1.0"
    read_listing: ClassVar[Callable[[Path, int, Location | None, Limits, int], Images]] = staticmethod(read_map)

    def __init__(self, options: ImageOptions, context: ReaderContext) -> None:
        trace = context.trace if options.trace_level >= 1 else None
        pipeline = make_pipeline(options, context, trace)
        images = type(self).read_listing(
            options.file,
            options.label_dim,
            options.file_where,
            Limits(options.max_image_pixels),
            options.max_line_bytes,
        )
        try:
            self._images, streams = _open(options, context, images, pipeline, trace)
        except BaseException:
            images.close()
            raise
        super().__init__(
            options,
            context,
            source=self._images,
            streams=streams,
            window=options.window,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> ImageOptions:
        """Read the block of a deserializer. Raises all errors together."""
        return read_deserializer(block, what)

    @classmethod
    def caches(cls) -> Sequence[Cache]:
        """Return the folder of compiled loops."""
        from cntk_core.api.engines import can_compile, kernel_cache

        return (kernel_cache(),) if can_compile() else ()

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the images."""
        return self._images.check()


class Base64ImageDeserializer(ImageDeserializer):
    """Reads images that are written in base64, one in each line of a file, and their classes."""

    read_listing: ClassVar[Callable[[Path, int, Location | None, Limits, int], Images]] = staticmethod(read_base64)


class ImageReader(ImageDeserializer):
    """Reads images as :class:`ImageDeserializer`, with the keys of all transforms in one block."""

    @classmethod
    def configure(cls, block: Config, what: str) -> ImageOptions:
        """Read the reader's block. Raises all errors together."""
        return read_legacy(block, what)


def make_pipeline(options: ImageOptions, context: ReaderContext, trace: Trace) -> Pipeline:
    """Make the transforms of a recipe.

    Raises:
        CntkError: files of transforms that cannot be read; channels that do not fit.
    """
    steps: list[Step] = []
    planes = False
    channels = 1 if options.grayscale else 3
    errors: list[CntkError] = []
    for transform in options.transforms:
        planes |= transform.name == "Transpose"
        try:
            step = _make_step(transform, channels, trace, steps)
        except CntkError as error:
            errors.append(error)
            continue
        steps += [] if step is None else [step]
    raise_problems(errors)
    return Pipeline(steps, channels=channels, planes=planes, dtype=context.dtype)


def _make_step(transform: Transform, channels: int, trace: Trace, before: list[Step]) -> Step | None:
    """Make a transform; one that changes nothing is none."""
    keys = transform.keys
    if transform.name == "Crop":
        for old, new in keys.old_keys:
            _tell(trace, f"{transform.section.location(old)}: {old} is not used, as in CNTK 2.0, which has {new}")
        return Crop(CropRule.of(keys), keys.hflip, keys.seed)
    if transform.name == "Scale":
        _check_channels(keys, channels, transform.where)
        mode, method = keys.scale_mode, keys.interpolations
        return Scale(keys.width, keys.height, method=method, mode=mode, pad=keys.pad_value)
    if transform.name == "Color" and (keys.brightness_radius or keys.contrast_radius or keys.saturation_radius):
        return Color(keys.brightness_radius, keys.contrast_radius, keys.saturation_radius, keys.seed)
    if transform.name == "Intensity" and keys.intensity_file is not None and keys.intensity_std_dev:
        values, vectors = read_intensity(keys.intensity_file, transform.section.location("intensityFile"))
        return Intensity(keys.intensity_std_dev, values, vectors, keys.seed)
    if transform.name == "Mean" and keys.mean_file is not None:
        return _make_mean(keys.mean_file, transform.section.location("meanFile"), channels, trace, before)
    return None


def _tell(trace: Trace, line: str) -> None:
    if trace is not None:
        trace(f"WARNING: {line}")


def _check_channels(keys: ScaleKeys, channels: int, where: Location | None) -> None:
    if int(keys.channels) != channels:
        gray = channels == 1
        text = f"channels={keys.channels}, but the images are read {'as gray' if gray else 'in colour'}"
        hint = "Set channels=1, or grayscale=false." if gray else "Set grayscale=true in the block with 'file'."
        raise ConfigError(text, where=where, hint=hint)


def _make_mean(path: Path, where: Location | None, channels: int, trace: Trace, before: list[Step]) -> Mean | None:
    """Read the mean image. One of another size is not used, as in CNTK, and a warning says so."""
    mean = Mean(read_mean(path, where))
    size: tuple[int, int] | None = None
    for step in before:
        size = step.size(size)
    if size is None or mean.fits(size, channels):
        return mean
    rows, columns, planes = mean.mean.shape
    told = f"{columns} x {rows} x {planes}, but the images are {size[0]} x {size[1]} x {channels}"
    _tell(trace, f"the mean image of '{path}' is {told}: it is not subtracted")
    return None


def _open(
    options: ImageOptions, context: ReaderContext, images: Images, pipeline: Pipeline, trace: Trace
) -> tuple[ImageSource, tuple[StreamInfo, ...]]:
    """Open the images for the inputs of the network."""
    gray = bool(options.grayscale)
    features, wanted = ChunkedReader.find_input(context, options.features)
    labels, label_shape = ChunkedReader.find_input(context, options.labels)
    shape = _feature_shape(options, features, wanted, images, pipeline, gray)
    if label_shape is not None and math.prod(label_shape) != options.label_dim:
        text = f"stream '{options.labels}' has labelDim={options.label_dim}, but the network's input '{labels}' is "
        raise ConfigError(text + show(label_shape), where=options.features_where)
    views = VIEWS if options.multi_view_crop else 1
    if views == 1 and _has_views(pipeline):
        _tell(trace, "cropType=multiView10 without multiViewCrop=true takes the upper left view alone")
    maker = ImageMaker(
        images,
        pipeline,
        shape=shape,
        gray=gray,
        views=views,
        threads=options.threads,
        budget=ErrorBudget(options.max_errors, trace),
        cache_bytes=options.cache_size_in_bytes,
    )
    dim = options.label_dim
    source = ImageSource(
        images, maker, features=features, labels=labels, label_dim=dim, views=views, dtype=context.dtype
    )
    return source, (StreamInfo(features, shape), StreamInfo(labels, label_shape or (dim,), sparse=True))


def _has_views(pipeline: Pipeline) -> bool:
    return any(isinstance(step, Crop) and step.rule.kind == "multiview10" for step in pipeline.steps)


def _feature_shape(
    options: ImageOptions, name: str, wanted: tuple[int, ...] | None, images: Images, pipeline: Pipeline, gray: bool
) -> tuple[int, ...]:
    """Return the shape of the samples: the network's, if it has an input of that name without free dimensions.

    Where the transforms leave images as large as they are, the first one that can be read tells.
    """
    size = pipeline.size
    is_free = wanted is not None and min(wanted, default=0) < 0
    if size is None and wanted is not None and not is_free:
        return wanted
    shape = pipeline.shape(*size) if size is not None else _first_shape(images, pipeline, gray)
    if wanted is None or (is_free and len(wanted) == len(shape) and _fits(shape, wanted)):
        return shape
    if is_free or math.prod(shape) != math.prod(wanted):
        text = f"stream '{options.features}' has samples of {show(shape)}, but the network's input '{name}' is "
        hint = "width, height and channels of Scale must have as many values as the input."
        raise ConfigError(text + show(wanted), where=options.features_where, hint=hint)
    return wanted


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether sizes are those that are wanted, where free dimensions, which are negative, may have any."""
    return all(size == dim or dim < 0 for size, dim in zip(shape, wanted, strict=True))


def _first_shape(images: Images, pipeline: Pipeline, gray: bool) -> tuple[int, ...]:
    first: Any = None
    for image in range(len(images)):
        try:
            pixels = decode(images.read(image), gray=gray, limits=images.limits)
        except BrokenImageError as error:
            first = first or broken_image(images, image, str(error))
            continue
        return pipeline.shape_of(pixels)
    raise first
