"""Reader and writer for CNTK's binary format (CBF)."""

from cntk_reader_binary.options import BinaryReaderOptions, StreamKeys
from cntk_reader_binary.reader import CNTKBinaryReader
from cntk_reader_binary.writer import BinaryWriterOptions, CNTKBinaryWriter

__all__ = ["BinaryReaderOptions", "BinaryWriterOptions", "CNTKBinaryReader", "CNTKBinaryWriter", "StreamKeys"]
