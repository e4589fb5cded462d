"""How the write action prints values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.config import parse_text
from cntk_core.errors import CntkError, DataError
from cntk_kit_recipes.recipe.formatting import Formatter, SequenceValue, WriteFormat, read_format, read_labels


def text(values: Any, *, shape: tuple[int, ...] = (3,), minibatch: int = 0, keys: bool = False, **format: Any) -> str:
    labels = format.pop("labels", ())
    rows = [np.asarray(sequence, np.float64) for sequence in values]
    sequences = [SequenceValue(number, f"k{number}", row) for number, row in enumerate(rows)]
    return Formatter(WriteFormat(**format), "z", shape, labels, keys=keys).text(sequences, minibatch)


ONE = [[[1, 2.5, -0.0]]]
TWO_STEPS = [[[1, 2, 3], [4, 5, 6]]]


def test_real_numbers() -> None:
    assert text(ONE) == "1.000000 2.500000 0.000000\n"


def test_precision_and_width() -> None:
    assert text(ONE, precision_format="7.2") == "   1.00    2.50    0.00\n"


def test_samples_of_a_sequence_are_lines() -> None:
    assert text(TWO_STEPS, precision_format=".0") == "1 2 3\n4 5 6\n"


def test_transpose_false_has_a_line_for_each_element() -> None:
    assert text(TWO_STEPS, precision_format=".0", transpose=False) == "1 4\n2 5\n3 6\n"


def test_transpose_false_shows_the_index_of_a_tensor() -> None:
    assert text([[[1, 2, 3]]], shape=(1, 3), precision_format=".0", transpose=False) == "[0,0]\t1\n[1,0]\t2\n[2,0]\t3\n"


def test_separators() -> None:
    found = text(
        [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9]]],
        precision_format=".0",
        element_separator="%",
        sample_separator="\\s|\\s",
        sequence_prologue="<",
        sequence_epilogue=">\\n",
        sequence_separator="\\t--\\r",
    )
    assert found == "<1%2%3 | 4%5%6>\n\t--\r<7%8%9>\n"


def test_placeholders() -> None:
    found = text(
        [[[1, 2, 3]], [[4, 5, 6], [7, 8, 9]]],
        shape=(1, 3),
        minibatch=4,
        keys=True,
        precision_format=".0",
        sequence_prologue="%s %n %d %k %x:",
        sample_separator=" %x;",
    )
    assert found == "z 4 0 k0 3 1 1:1 2 3\nz 4 1 k1 3 1 2:4 5 6 3 1 2;7 8 9\n"


def test_keys_stay_a_placeholder_unless_asked_for() -> None:
    assert text(ONE, precision_format=".0", sequence_prologue="%k ") == "%k 1 2 0\n"


def test_category_is_the_last_of_the_largest() -> None:
    assert text([[[1, 5, 5], [9, 2, 3]]], type="category") == "2\n0\n"


def test_category_names() -> None:
    found = text([[[1, 5, 2]]], type="category", label_mapping_file="f", labels=("red", "green", "blue"))
    assert found == "green\n"


def test_label_mapping_that_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert text([[[1, 5, 2]]], type="category", label_mapping_file="f", labels=("red", "green")) == "1\n"
    assert capsys.readouterr().out == (
        "write: Row dimension 3 does not match number of entries 2 in labelMappingFile, not using mapping\n"
    )


def test_sparse_prints_what_is_not_zero() -> None:
    assert text([[[0, 1, 2]]], type="sparse", precision_format=".1") == "[1]\n2.0[2]\n"


def test_sparse_goes_through_the_elements_first() -> None:
    found = text([[[0, 1, 0], [3, 0, 1]]], type="sparse", precision_format=".0", sample_separator=",")
    assert found == "3[0;1],[1;0],[2;1]\n"


def test_sparse_with_transpose_false_goes_through_the_steps_first() -> None:
    found = text([[[0, 1, 0], [3, 0, 1]]], type="sparse", precision_format=".0", transpose=False)
    assert found == "[1;0] 3[0;1] [2;1]\n"


def test_sparse_names_the_labels_of_a_dimension() -> None:
    found = text([[[0, 1, 0, 0, 0, 2]]], shape=(2, 3), type="sparse", precision_format=".0", labels=("a", "b", "c"))
    assert found == "[1=b,0]\n2[2=c,1]\n"


def test_format_block() -> None:
    section = parse_text('format = [ type = category ; precisionFormat = ".3" ; transpose = false ]')
    assert read_format(section) == WriteFormat(type="category", precision_format=".3", transpose=False)


def test_no_format_block() -> None:
    assert read_format(parse_text("action = write")) == WriteFormat()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            "type = text",
            "r.cntk:1:19: format:type must be one of the names below, not 'text'\n"
            "    Accepted: real, category, sparse.",
        ),
        (
            "precisionFormat = 3.f",
            "r.cntk:1:12: precisionFormat must be a width and a precision, not '3.f'\n"
            "    Accepted: what stands between % and f in C, such as .4 or 10.5.",
        ),
        (
            "transposed = true",
            "r.cntk:1:12: the format of the write action has no option 'transposed'; did you mean 'transpose'?\n"
            "    Options: type, labelMappingFile, transpose, prologue, epilogue, sequenceSeparator, sequencePrologue, "
            "sequenceEpilogue, elementSeparator, sampleSeparator, precisionFormat",
        ),
    ],
)
def test_wrong_format_blocks(block: str, message: str) -> None:
    with pytest.raises(CntkError) as error:
        read_format(parse_text(f"format = [ {block} ]", file="r.cntk"))
    assert str(error.value) == message


def test_label_mapping_file_that_is_missing() -> None:
    with pytest.raises(DataError) as error:
        read_labels("nowhere.txt")
    assert str(error.value) == "the labelMappingFile 'nowhere.txt' cannot be read: No such file or directory"
