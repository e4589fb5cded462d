"""Reader for IDX files, the format of the MNIST digits, plain or gzipped."""

from cntk_reader_mnist.options import ImageOptions, LabelOptions, MNISTReaderOptions
from cntk_reader_mnist.reader import MNISTReader

__all__ = ["ImageOptions", "LabelOptions", "MNISTReader", "MNISTReaderOptions"]
