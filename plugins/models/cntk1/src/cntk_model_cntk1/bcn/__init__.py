"""Models of the original CNTK, version 1 of their format ("BCN")."""

from cntk_model_cntk1.bcn.load import MAGIC, load_bcn
from cntk_model_cntk1.bcn.save import save_bcn

__all__ = ["MAGIC", "load_bcn", "save_bcn"]
