"""Model files of CNTK 1 keep the contract of model formats."""

from __future__ import annotations

from bcn_writer import small_model
from cntk_model_cntk1.bcn.model_format import Cntk1Format

from cntk_testing import ModelFormatContract


class TestCntk1(ModelFormatContract):
    format_class = Cntk1Format

    def model_file(self, folder):
        path = folder / "old.dnn"
        small_model().write(path)
        return path
