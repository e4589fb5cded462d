"""Readers and writers for CNTK's binary format (CBF) and for the binary caches of its older readers."""

from cntk_reader_binary.options import BinaryReaderOptions, StreamKeys
from cntk_reader_binary.reader import CNTKBinaryReader
from cntk_reader_binary.section_reader import BinaryReader
from cntk_reader_binary.section_writer import BinaryWriter
from cntk_reader_binary.writer import BinaryWriterOptions, CNTKBinaryWriter

__all__ = [
    "BinaryReader",
    "BinaryReaderOptions",
    "BinaryWriter",
    "BinaryWriterOptions",
    "CNTKBinaryReader",
    "CNTKBinaryWriter",
    "StreamKeys",
]
