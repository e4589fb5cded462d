"""Transforms of images, for :func:`cntk.io.ImageDeserializer`."""

from __future__ import annotations

from typing import Any

from cntk._inherited import inherit


def _pair(value: Any) -> tuple[Any, Any]:
    return (value[0], value[1]) if isinstance(value, tuple | list) else (value, value)


def _range(name: str, value: Any) -> str:
    least, most = _pair(value)
    if least > most:
        raise ValueError(f"{name} of crop goes from {least:g} to {most:g}; the first must not be larger")
    return f"{least:g}:{most:g}"


def crop(
    crop_type: str = "center",
    crop_size: Any = 0,
    side_ratio: Any = 0.0,
    area_ratio: Any = 0.0,
    aspect_ratio: Any = 1.0,
    jitter_type: str = "none",
) -> dict[str, Any]:
    """Cut a part out of each image.

    Args:
        crop_type: ``center``, ``randomside``, ``randomarea`` or ``multiview10``.
        crop_size: pixels of a side, or (width, height).
        side_ratio, area_ratio, aspect_ratio: a number, or (least, most).
        jitter_type: ``none`` or ``uniratio``.

    Raises:
        ValueError: a range goes down.
    """
    width, height = _pair(crop_size)
    return {
        "type": "Crop",
        "cropType": crop_type,
        "cropSize": f"{width}:{height}",
        "sideRatio": _range("side_ratio", side_ratio),
        "areaRatio": _range("area_ratio", area_ratio),
        "aspectRatio": _range("aspect_ratio", aspect_ratio),
        "jitterType": jitter_type,
    }


def scale(
    width: int,
    height: int,
    channels: int,
    interpolations: str = "linear",
    scale_mode: str = "fill",
    pad_value: int = -1,
) -> dict[str, Any]:
    """Bring each image to a size.

    Args:
        width, height, channels: the size.
        interpolations: ``nearest``, ``linear``, ``cubic`` or ``lanczos``.
        scale_mode: ``fill``, ``crop`` or ``pad``.
        pad_value: of padded pixels; -1: the border is repeated.
    """
    return {
        "type": "Scale",
        "width": width,
        "height": height,
        "channels": channels,
        "interpolations": interpolations,
        "scaleMode": scale_mode,
        "padValue": pad_value,
    }


def mean(filename: str) -> dict[str, Any]:
    """Subtract the mean image of a file."""
    return {"type": "Mean", "meanFile": filename}


def color(
    brightness_radius: float = 0.0, contrast_radius: float = 0.0, saturation_radius: float = 0.0
) -> dict[str, Any]:
    """Change brightness, contrast and saturation of each image by up to so much, at random."""
    return {
        "type": "Color",
        "brightnessRadius": brightness_radius,
        "contrastRadius": contrast_radius,
        "saturationRadius": saturation_radius,
    }


inherit(__name__)
