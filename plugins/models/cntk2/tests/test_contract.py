"""Files of CNTK 2 keep the contract of model formats."""

from __future__ import annotations

from cntk_model_cntk2.model_format import Cntk2Format

from cntk_testing import ModelFormatContract, PackagingContract


class TestCntk2(ModelFormatContract):
    format_class = Cntk2Format
    writes = True


class TestPackaging(PackagingContract):
    distribution = "cntk-model-cntk2"
    kind = "model_format"
