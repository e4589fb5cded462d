"""Reader for CNTK's text format (CTF), dense and sparse."""

from cntk_reader_cntk_text.options import StreamOptions, TextReaderOptions
from cntk_reader_cntk_text.reader import CNTKTextFormatReader

__all__ = ["CNTKTextFormatReader", "StreamOptions", "TextReaderOptions"]
