"""Reader for sound files: log-mel spectra or cepstra, computed while they are read."""

from cntk_reader_audio.deserializers import AudioFeatureDeserializer
from cntk_reader_audio.options import AudioReaderOptions, FeatureOptions, LabelOptions
from cntk_reader_audio.reader import AudioReader

__all__ = ["AudioFeatureDeserializer", "AudioReader", "AudioReaderOptions", "FeatureOptions", "LabelOptions"]
