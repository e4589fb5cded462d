"""Reader for tables of columns, one sample per line: ``UCIFastReader``."""

from cntk_reader_uci.options import ColumnOptions, LabelOptions, UCIReaderOptions
from cntk_reader_uci.reader import UCIFastReader

__all__ = ["ColumnOptions", "LabelOptions", "UCIFastReader", "UCIReaderOptions"]
