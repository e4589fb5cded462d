"""Reader for Kaldi tables: features, alignments and posteriors."""

from cntk_reader_kaldi.deserializers import KaldiAlignmentDeserializer, KaldiFeatureDeserializer
from cntk_reader_kaldi.options import AlignmentOptions, FeatureOptions, KaldiReaderOptions
from cntk_reader_kaldi.reader import Kaldi2Reader

__all__ = [
    "AlignmentOptions",
    "FeatureOptions",
    "Kaldi2Reader",
    "KaldiAlignmentDeserializer",
    "KaldiFeatureDeserializer",
    "KaldiReaderOptions",
]
