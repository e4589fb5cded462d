"""Readers for CNTK's older binary formats of sparse data."""

from cntk_reader_sparse.dssm import DSSMReader
from cntk_reader_sparse.libsvm import LibSVMBinaryReader
from cntk_reader_sparse.parallel_corpus import SparsePCReader

__all__ = ["DSSMReader", "LibSVMBinaryReader", "SparsePCReader"]
