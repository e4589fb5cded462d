"""Reader and writer for Kaldi tables: features, alignments and posteriors."""

from cntk_reader_kaldi.deserializers import KaldiAlignmentDeserializer, KaldiFeatureDeserializer
from cntk_reader_kaldi.options import AlignmentOptions, FeatureOptions, KaldiReaderOptions
from cntk_reader_kaldi.reader import Kaldi2Reader
from cntk_reader_kaldi.writer import Kaldi2Writer, WriterOptions

__all__ = [
    "AlignmentOptions",
    "FeatureOptions",
    "Kaldi2Reader",
    "Kaldi2Writer",
    "KaldiAlignmentDeserializer",
    "KaldiFeatureDeserializer",
    "KaldiReaderOptions",
    "WriterOptions",
]
