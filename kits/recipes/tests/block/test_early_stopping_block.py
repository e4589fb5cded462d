"""The block earlyStopping of an SGD block."""

from __future__ import annotations

import pytest

from cntk_core.config import parse_text
from cntk_core.errors import CntkError
from cntk_kit_recipes.block.early_stopping import EarlyStopping, read_early_stopping
from cntk_kit_recipes.block.sgd_block import read_settings


def block(text: str):
    recipe = f"SGD = [\n    maxEpochs = 3 ; learningRatesPerSample = 0.1\n    {text}\n]"
    return parse_text(recipe, file="r.cntk").section("SGD")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("earlyStopping = [ ]", EarlyStopping()),
        (
            "earlyStopping = [ patience = 2 ; minDelta = 0.5 ; restoreBest = false ; criterion = errs ]",
            EarlyStopping(patience=2, min_delta=0.5, restore_best=False, criterion="errs"),
        ),
    ],
)
def test_what_is_read(text, expected):
    given = block(text)
    assert read_early_stopping(given) == expected
    read_settings(given)  # which leaves it alone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("earlyStopping = true", r"r\.cntk:3:21: earlyStopping is a block\n    earlyStopping = \[ patience = 5 ; "),
        ("earlyStopping = [ patience = 0 ]", r"r\.cntk:3:34: .*patience.* must be at least 1, not 0"),
        ("earlyStopping = [ minDelta = -1 ]", r"r\.cntk:3:34: .*must be at least 0, not -1"),
        ("earlyStopping = [ patiense = 3 ]", r"r\.cntk:3:23: the block earlyStopping has no option 'patiense'"),
    ],
)
def test_what_is_wrong(text, message):
    with pytest.raises(CntkError, match=f"^{message}"):
        read_early_stopping(block(text))
