"""Readers for language: sentences for language models, and words with tags; and a writer of tags."""

from cntk_reader_language.lm import LMOptions, LMSequenceReader
from cntk_reader_language.lu import LUOptions, LUSequenceReader
from cntk_reader_language.writer import LMSequenceWriter, LUSequenceWriter, LUWriterOptions

__all__ = [
    "LMOptions",
    "LMSequenceReader",
    "LMSequenceWriter",
    "LUOptions",
    "LUSequenceReader",
    "LUSequenceWriter",
    "LUWriterOptions",
]
