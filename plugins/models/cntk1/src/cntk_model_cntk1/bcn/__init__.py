"""Models of the original CNTK, version 1 of their format ("BCN"): read, never written."""

from cntk_model_cntk1.bcn.load import MAGIC, load_bcn

__all__ = ["MAGIC", "load_bcn"]
