"""Readers for images: map files, containers, base64, CNTK's transforms."""

from cntk_reader_image.options import ImageOptions
from cntk_reader_image.reader import Base64ImageDeserializer, ImageDeserializer, ImageReader

__all__ = ["Base64ImageDeserializer", "ImageDeserializer", "ImageOptions", "ImageReader"]
