"""Readers for HTK feature files and master label files, and the writer of HTK files."""

from cntk_reader_htk.deserializers import HTKFeatureDeserializer, HTKMLFDeserializer
from cntk_reader_htk.options import FeatureOptions, HTKReaderOptions, LabelOptions
from cntk_reader_htk.reader import HTKDeserializers, HTKMLFReader
from cntk_reader_htk.writer import HTKMLFWriter, WriterOptions

__all__ = [
    "FeatureOptions",
    "HTKDeserializers",
    "HTKFeatureDeserializer",
    "HTKMLFDeserializer",
    "HTKMLFReader",
    "HTKMLFWriter",
    "HTKReaderOptions",
    "LabelOptions",
    "WriterOptions",
]
