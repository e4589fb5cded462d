"""What a recipe may say to the readers, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    MissingKeyError,
    Value,
    collect,
    did_you_mean,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import CACHE_BYTES, LINE_BYTES, ReaderKeys, Window
from cntk_reader_image.limits import IMAGE_PIXELS

_RANDOM = ("randomside", "randomarea")


def _at_least(least: float) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: float) -> None:
        if value < least:
            raise ValueError(f"'{field.name}' must be at least {least}, not {value}")

    return check


def _radius(_: object, field: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"'{field.name}' must be from 0 to 1, not {value:g}")


def _sides(_: object, field: attrs.Attribute[tuple[int, ...]], value: tuple[int, ...]) -> None:
    if not 1 <= len(value) <= 2 or min(value) < 0:
        raise ValueError(f"'{field.name}' must be one number of pixels, or width:height, not {_shown(value)}")


def _share(_: object, field: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]) -> None:
    if len(value) in (1, 2) and not any(value):
        return
    _ratio(_, field, value)


def _ratio(_: object, field: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]) -> None:
    if not 1 <= len(value) <= 2 or not 0 < value[0] <= value[-1] <= 1:
        raise ValueError(
            f"'{field.name}' must be a number above 0 and at most 1, or two of them as least:most, not {_shown(value)}"
        )


def _shown(values: tuple[float, ...]) -> str:
    return "'" + ":".join(f"{value:g}" for value in values) + "'"


@attrs.frozen(kw_only=True, slots=False)
class CropKeys:
    """The keys of the transform Crop."""

    crop_type: Literal["center", "randomSide", "randomArea", "multiView10"] = option(
        default="center", doc="Where the part lies: in the middle, anywhere, or in ten places."
    )
    crop_size: tuple[int, ...] = option(default=(0,), doc="width:height of the part, in pixels.", validator=_sides)
    side_ratio: tuple[float, ...] = option(
        default=(0.0,), doc="Share of the shorter side, or least:most; a square.", validator=_share
    )
    area_ratio: tuple[float, ...] = option(
        default=(0.0,), doc="Share of the area, or least:most; a square.", validator=_share
    )
    aspect_ratio: tuple[float, ...] = option(
        default=(1.0,), doc="Ratio of the shorter to the longer side, or least:most.", validator=_ratio
    )
    jitter_type: Literal["none", "uniRatio"] = option(
        default="none", doc="uniRatio: ratios are drawn from their ranges; else the least one counts."
    )
    hflip: bool | None = option(default=None, doc="Mirror by chance; by default where the part lies anywhere.")
    seed: int = option(default=0, doc="Another seed gives other parts.")
    crop_ratio: str = option(default="", doc="Of CNTK 1; not used, as in CNTK 2.0.")
    aspect_ratio_radius: str = option(default="", doc="Of CNTK 1; not used, as in CNTK 2.0.")

    @property
    def old_keys(self) -> list[tuple[str, str]]:
        """The keys of CNTK 1 that are given, and those that took their places."""
        given = (
            ("cropRatio", "sideRatio", self.crop_ratio),
            ("aspectRatioRadius", "aspectRatio", self.aspect_ratio_radius),
        )
        return [(old, new) for old, new, value in given if value]


@attrs.frozen(kw_only=True, slots=False)
class ScaleKeys:
    """The keys of the transform Scale."""

    width: int = option(doc="Columns of an image.", validator=_at_least(1))
    height: int = option(doc="Rows of an image.", validator=_at_least(1))
    channels: Literal["3", "1"] = option(doc="3: colours; 1: gray.")
    interpolations: Literal["linear", "nearest", "cubic", "lanczos"] = option(default="linear", doc="How to resize.")
    scale_mode: Literal["fill", "crop", "pad"] = option(
        default="fill", doc="fill: warp; crop: cut what is too much; pad: add a border."
    )
    pad_value: int = option(default=-1, doc="Value of the border; -1 repeats the edge.", validator=_at_least(-1))


@attrs.frozen(kw_only=True, slots=False)
class ColorKeys:
    """The keys of the transform Color."""

    brightness_radius: float = option(default=0.0, doc="Share of the mean that is added at most.", validator=_radius)
    contrast_radius: float = option(default=0.0, doc="Change of the contrast at most.", validator=_radius)
    saturation_radius: float = option(default=0.0, doc="Change of the saturation at most.", validator=_radius)
    seed: int = option(default=0, doc="Another seed gives other colours.")


@attrs.frozen(kw_only=True, slots=False)
class IntensityKeys:
    """The keys of the transform Intensity."""

    intensity_std_dev: float = option(default=0.0, doc="Deviation along each axis.", validator=_at_least(0))
    intensity_file: Path | None = option(  # noqa: RUF009
        default=None, doc="XML file with EigVal and EigVec."
    )
    seed: int = option(default=0, doc="Another seed gives other colours.")


@attrs.frozen(kw_only=True, slots=False)
class MeanKeys:
    """The keys of the transform Mean."""

    mean_file: Path | None = option(default=None, doc="XML file with the mean image.")  # noqa: RUF009


@options
class NoKeys:
    """A transform without keys of its own: Transpose, Cast."""

    precision: Literal["float", "double"] | None = option(default=None, doc="The network's own precision is used.")


TransformKeys = CropKeys | ScaleKeys | ColorKeys | IntensityKeys | MeanKeys | NoKeys
TRANSFORMS: dict[str, type] = {
    "Crop": CropKeys,
    "Scale": ScaleKeys,
    "Color": ColorKeys,
    "Intensity": IntensityKeys,
    "Mean": MeanKeys,
    "Transpose": NoKeys,
    "Cast": NoKeys,
}
"""The transforms by their names in a recipe, and their keys."""


@attrs.frozen(kw_only=True, slots=False)
class LegacyFeatureKeys(CropKeys, ScaleKeys, ColorKeys, IntensityKeys, MeanKeys):
    """The keys of the block of images of ImageReader: those of all transforms, in one."""

    mb_format: Literal["nchw", "cudnn", "nhwc", "legacy"] = option(
        default="nchw", doc="nchw: planes of colours; nhwc and legacy: the colours of each pixel side by side."
    )


@options
class ImageStreamKeys:
    """The keys of a deserializer's block of images; what a transform needs stands in its own block."""

    transforms: Value = option(doc="The transforms, one after another.")


@options
class LabelKeys:
    """The keys of the block of labels."""

    label_dim: int = option(doc="Number of classes.", validator=_at_least(1))


@attrs.frozen
class Transform:
    """One transform of a recipe: its name, its keys, its block."""

    name: str
    keys: Any
    section: Config

    @property
    def where(self) -> Location:
        """The place of the block."""
        return self.section.where


@options
class ImageReaderKeys(ReaderKeys):
    """The keys of the readers' own blocks."""

    file: Path = option(doc="Map file: path TAB class in each line, or key TAB path TAB class.")
    grayscale: bool | None = option(default=None, doc="Read images as gray; by default if channels=1 (ImageReader).")
    num_cpu_threads: int = option(
        default=0, key="numCPUThreads",
        doc="Threads that decode; 0: as many as processors, or OMP_NUM_THREADS; less than 0: all but so many.",
    )  # fmt: skip
    max_errors: int = option(default=0, doc="Broken images that are left out.", validator=_at_least(0))
    max_image_pixels: int = option(
        default=IMAGE_PIXELS, doc="An image with more pixels is broken; all threads together decode no more.",
        validator=_at_least(1),
    )  # fmt: skip
    max_line_bytes: int = option(default=LINE_BYTES, doc="A longer line is refused.", validator=_at_least(1))
    cache_size_in_bytes: int = option(
        default=CACHE_BYTES, doc="Decoded images that are kept, if about all fit.", validator=_at_least(0)
    )


@options
class DeserializerKeys(ImageReaderKeys):
    """The keys of a deserializer's own block."""

    multi_view_crop: bool = option(default=False, doc="Ten views of each image, for cropType=multiView10.")
    multi_threaded_deserialization: bool = option(default=True, doc="false: one thread decodes.")


@options
class ImageOptions(DeserializerKeys):
    """Everything that a recipe says to a reader of images; ``features`` and ``labels`` are the names of the streams."""

    features: str
    labels: str
    label_dim: int
    transforms: tuple[Transform, ...] = ()
    file_where: Location | None = None
    features_where: Location | None = None

    @property
    def window(self) -> Window | None:
        """How the images are shuffled: each is a chunk, and the chunks are; None is not at all."""
        return self.window_within(Window(1, in_samples=True))

    @property
    def threads(self) -> int:
        """How many threads decode, as ``numCPUThreads`` says it."""
        return self.num_cpu_threads if self.multi_threaded_deserialization else 1


def read_legacy(block: Config, what: str) -> ImageOptions:
    """Read the block of ImageReader: a sub-block with ``width``, one with ``labelDim``. Raises all errors together."""
    errors: list[CntkError] = []
    names = [key for key in block.keys() if _is_block(block, key)]  # noqa: SIM118 - a Config is no dict
    keys = collect(lambda: block.bind(ImageReaderKeys, ignore=names, what=what), errors)
    feature = _one(block, names, "width", what, "features=[ width=... ; height=... ; channels=3 ]", errors)
    label = _one(block, names, "labelDim", what, "labels=[ labelDim=... ]", errors)
    read: Any = None
    dim: Any = None
    if feature is not None:
        told = f"stream '{feature}' of {what}"
        read = collect(lambda: _read_legacy_features(block.section(feature), told), errors)
    if label is not None:
        dim = collect(lambda: _read_labels(block.section(label), f"stream '{label}' of {what}"), errors)
    raise_problems(errors)
    assert keys is not None
    assert feature is not None
    assert label is not None
    given = attrs.asdict(keys, recurse=False)
    if given["grayscale"] is None:
        given["grayscale"] = read.channels == "1"
    return ImageOptions(
        **given,
        multi_view_crop=read.crop_type.lower() == "multiview10",
        features=feature,
        labels=label,
        label_dim=dim,
        transforms=_legacy_transforms(read, block.section(feature)),
        file_where=block.location("file"),
        features_where=block.location(feature),
    )


def _read_legacy_features(section: Config, told: str) -> LegacyFeatureKeys:
    keys = section.bind(LegacyFeatureKeys, ignore=("type", "precision"), what=told)
    raise_problems(crop_errors(keys, section))
    return keys


def _legacy_transforms(keys: LegacyFeatureKeys, section: Config) -> tuple[Transform, ...]:
    names = ["Crop", "Scale", "Color", "Intensity", "Mean"]
    if keys.mb_format in ("nchw", "cudnn"):
        names.append("Transpose")
    return tuple(Transform(name, keys, section) for name in names)


def read_deserializer(block: Config, what: str) -> ImageOptions:
    """Read the block of a deserializer: ``input`` has one block with transforms, one with labelDim.

    Raises all errors together.
    """
    errors: list[CntkError] = []
    keys = collect(lambda: block.bind(DeserializerKeys, ignore=("input",), what=what), errors)
    value = block.own("input")
    if value is None:
        hint = "Add input=[ features=[ transforms=( ... ) ] ; labels=[ labelDim=... ] ]."
        errors.append(MissingKeyError(f"{what} needs the key 'input'", where=block.where, hint=hint))
        raise_problems(errors)
        raise AssertionError("not reached")
    section = value.config()
    names = list(section.keys())
    feature = _one(section, names, "transforms", what, "features=[ transforms=( ... ) ]", errors)
    label = _one(section, names, "labelDim", what, "labels=[ labelDim=... ]", errors)
    transforms: Any = ()
    dim: Any = 0
    if feature is not None:
        told = f"stream '{feature}' of {what}"
        transforms = collect(lambda: _read_transforms(section.section(feature), told), errors)
    if label is not None:
        dim = collect(lambda: _read_labels(section.section(label), f"stream '{label}' of {what}"), errors)
    raise_problems(errors)
    assert keys is not None
    assert feature is not None
    assert label is not None
    return ImageOptions(
        **attrs.asdict(keys, recurse=False),
        features=feature,
        labels=label,
        label_dim=dim,
        transforms=transforms,
        file_where=block.location("file"),
        features_where=section.location(feature),
    )


def _is_block(block: Config, key: str) -> bool:
    value = block.own(key)
    return value is not None and value.is_block


def _one(block: Config, names: list[str], key: str, what: str, example: str, errors: list[CntkError]) -> str | None:
    """Return the one of some sub-blocks that has a key of its own, or note that there is none or several."""
    found = [name for name in names if block.section(name).own(key) is not None]
    if len(found) == 1:
        return found[0]
    if not found:
        errors.append(MissingKeyError(f"{what} has no block with '{key}'", where=block.where, hint=f"Add {example}."))
        return None
    text = f"{what} has {len(found)} blocks with '{key}': {', '.join(found)}"
    hint = "One reader has one stream of images and one of labels; deserializers=( ... ) joins several."
    errors.append(ConfigError(text, where=block.location(found[1]), hint=hint))
    return None


def _read_labels(section: Config, told: str) -> int:
    return section.bind(LabelKeys, ignore=("labelType", "type"), what=told).label_dim


def _read_transforms(section: Config, told: str) -> tuple[Transform, ...]:
    errors: list[CntkError] = []
    keys = collect(lambda: section.bind(ImageStreamKeys, what=told), errors)
    value = section.require("transforms") if keys is None else keys.transforms
    found = [collect(lambda one=one: _read_transform(one, section, told), errors) for one in value.array()]
    raise_problems(errors)
    raise_problems(_order_errors(found, told))
    return tuple(found)


def _read_transform(value: Value, parent: Config, told: str) -> Transform:
    own = value.config().with_parent(parent)
    kind = own.own("type")
    if kind is None:
        hint = f"type={', '.join(TRANSFORMS)}"
        raise MissingKeyError(f"a transform of {told} needs its type", where=value.where, hint=hint)
    names = {name.lower(): name for name in TRANSFORMS}
    name = names.get(kind.string().lower())
    if name is None:
        text = f"{told}: there is no transform '{kind.string()}'{did_you_mean(kind.string(), TRANSFORMS)}"
        raise ConfigError(text, where=kind.where, hint=f"Transforms: {', '.join(TRANSFORMS)}")
    keys: Any = own.bind(TRANSFORMS[name], ignore=("type", "precision"), what=f"transform '{name}' of {told}")
    if isinstance(keys, CropKeys):
        raise_problems(crop_errors(keys, own))
    return Transform(name, keys, own)


def _order_errors(transforms: list[Transform], told: str) -> list[CntkError]:
    errors: list[CntkError] = []
    done = ""
    for transform in transforms:
        if done and transform.name != "Cast":
            text = f"{told}: {transform.name} cannot come after {done}"
            errors.append(ConfigError(text, where=transform.where, hint="Transpose and Cast are the last transforms."))
        if transform.name in ("Transpose", "Cast"):
            done = transform.name
    return errors


def crop_errors(keys: CropKeys, section: Config) -> list[CntkError]:
    """Return what is wrong between the keys of a crop."""
    if not any(keys.side_ratio) or not any(keys.area_ratio):
        return []
    text = "sideRatio and areaRatio exclude each other"
    return [ConfigError(text, where=section.location("areaRatio"), hint="Remove one of them.")]
