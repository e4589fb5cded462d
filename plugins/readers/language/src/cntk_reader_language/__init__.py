"""Readers for language: sentences for language models, and words with tags."""

from cntk_reader_language.lm import LMOptions, LMSequenceReader
from cntk_reader_language.lu import LUOptions, LUSequenceReader

__all__ = ["LMOptions", "LMSequenceReader", "LUOptions", "LUSequenceReader"]
