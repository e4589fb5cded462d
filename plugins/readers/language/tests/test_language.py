"""What the readers read, and what they say of a wrong text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_language import LMSequenceReader, LUSequenceReader
from language_texts import LM, LU, make_reader

from cntk_core.api import CntkError, EpochSpec


def rows(reader, **spec: int) -> dict[str, list]:
    found: dict[str, list] = {stream.name: [] for stream in reader.streams}
    for minibatch in reader.minibatches(EpochSpec(**spec)):
        for name, stream in minibatch.streams.items():
            data = stream.data.toarray().argmax(axis=1) if stream.sparse else stream.data
            found[name].append(data.tolist())
    return found


def error_of(make, **parts) -> str:
    with pytest.raises(CntkError) as caught:
        rows(make(**parts))
    return str(caught.value)


def test_words_and_class_rows(lm) -> None:
    found = rows(lm(for_writing=True))
    assert found["features"] == [[0, 1, 2], [0, 3, 4, 1, 2], [0, 2, 3], [0, 1, 1]]
    assert found["labels"][0] == [[1, 0, 0, 2], [2, 1, 2, 4], [0, 0, 0, 2]]
    assert found["labels"][1][1] == [4, 2, 4, 5]


def test_sentences_side_by_side(lm) -> None:
    found = rows(lm(for_writing=True, keys="; nbruttsineachrecurrentiter = 2"))
    assert found["features"] == [[0, 0, 1, 2, 2, 3], [0, 3, 4, 1, 2], [0, 1, 1]]


def test_long_sentences_are_cut(lm) -> None:
    reader = lm(for_writing=True)
    assert rows(reader, minibatch_size=2)["features"][:4] == [[0, 1], [2], [0, 3], [4, 1]]
    layouts = [mb.streams["labels"].layout for mb in reader.minibatches(EpochSpec(minibatch_size=2))]
    assert [layout.continues for layout in layouts[:3]] == [(0,), (), (0,)]
    assert [len(layout.begins) for layout in layouts[:3]] == [1, 0, 1]


def test_other_rows_of_labels(lm) -> None:
    softmax = rows(lm(for_writing=True, features="; mode = softmax"))["labels"]
    assert softmax[0] == [[1], [2], [1e-6]]
    (noise,) = {len(row) for part in rows(lm(features="; mode = nce ; noise_number = 3"))["labels"] for row in part}
    assert noise == 8
    first = rows(lm(for_writing=True, features="; mode = nce ; noise_number = 1"))["labels"][0][0]
    assert first[:2] == [1, np.log(5 / 22)]
    assert first[3] == -np.log(np.array([9, 5, 4, 3, 1])[int(first[2])] / 22)


def test_words_of_a_mapping_file(lm) -> None:
    Path("none.txt").write_text("</s>\na\nb\nc\n<unk>\n")
    assert rows(lm(for_writing=True))["features"][0] == [0, 1, 2]


def test_errors_of_the_text(lm) -> None:
    text = error_of(lm, keys="; unk = nothing")
    assert text == "lm.txt:3: 'zebra' is not in the words of 'labelIn', nor is the unknown word 'nothing'\n" + (
        "lm.txt:3: 'zebra' is not in the words of 'labels', nor is the unknown word 'nothing'\n2 problems found"
    )
    Path("lm.txt").write_text("a\n")
    assert error_of(lm) == "lm.txt: the text has no sentences"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 9 a\n", "classes.txt:1: the line is not 'number count word class'"),
        ("0 9 a 0\n2 1 b 0\n", "classes.txt:2: word number 2 stands where 1 should be"),
        ("0 9 a 0\n1 1 a 0\n", "classes.txt:2: the word 'a' is there twice"),
        ("0 9 a 1\n1 1 b 0\n", "classes.txt:2: class 0 comes after class 1"),
        ("\n", "classes.txt: the class file is empty"),
        (f"0 9 a {2**63}\n", "classes.txt:1: the line is not 'number count word class'"),
        (f"0 9 a {'9' * 5000}\n", "classes.txt:1: the line is not 'number count word class'"),
        ("0 nan a 0\n", "classes.txt:1: the line is not 'number count word class'"),
        ("0 -1 a 0\n", "classes.txt:1: the line is not 'number count word class'"),
        ("0 0 a 0\n", "classes.txt: the counts of the class file must have a sum above zero"),
        ("0 1e308 a 0\n1 1e308 b 0\n", "classes.txt: the counts of the class file must have a sum above zero"),
    ],
)
def test_errors_of_the_class_file(lm, text: str, message: str) -> None:
    Path("classes.txt").write_text(text)
    assert error_of(lm) == message


def test_the_first_unknown_words_are_compared_with_those_there_are(lm) -> None:
    Path("words.txt").write_text("apple\nb\n")
    Path("lm.txt").write_text("<s> appel appel appel appel appel appel appel b\n" * 3)
    errors = [str(error) for error in lm(keys="; unk = nothing").check()]
    guesses = ["; did you mean" in error for error in errors]
    assert len(errors) > 10
    assert not any(guesses[10:])


def test_errors_of_the_recipe(lm, lu) -> None:
    message = "r.cntk:3:37: stream 'features' has 5 rows, but the network's input 'features' is [7]"
    assert error_of(lm, inputs={"features": (7,)}) == message
    text = error_of(lu, keys="; nbruttsineachrecurrentiter = 0 ; randomize = often", labels="; mode = odd")
    assert "3 problems found" in text
    assert error_of(lu, keys="; ioNodeNames = a:b").partition(": ")[2] == (
        "ioNodeNames, several texts in one reader, is not supported\n    Name them with readers=a:b instead, "
        "with a=[ readerType=LUSequenceReader ; ... ] and b=[ ... ]."
    )
    assert error_of(lu, keys="; ignoresentencebegintag = true").partition(": ")[2] == (
        "ignoresentencebegintag=true is not supported\n"
        "    The original refuses it as well, since its version 2.0: remove it."
    )
    assert error_of(lu, labels="; isProposal = true").partition(": ")[2] == (
        "isProposal=true is not supported\n    Search for words in a program of your own: docs/example-g2p.md has one."
    )


def test_caches_are_not_needed(lm, lu) -> None:
    """The keys of a binary cache change nothing but the log."""
    for make, name in ((lm, "LMSequenceReader"), (lu, "LUSequenceReader")):
        told: list[str] = []
        reader = make(keys="; writerType = BinaryWriter ; wfile = cache.bin", trace=told.append)
        assert rows(reader) == rows(make())
        assert told == [f"{name}: no binary cache is written or read (writerType), the text is parsed directly"]
        assert not Path("cache.bin").exists()


def test_an_epoch_that_is_larger_than_the_text(lu) -> None:
    """It ends with the text, unless ``dataMultiPass`` says that this is read again."""
    once, again = lu(), lu(keys="; dataMultiPass = true")
    found = rows(once)["features"]
    assert rows(again)["features"] == found
    assert rows(once, epoch_size=18)["features"] == found
    assert rows(again, epoch_size=18)["features"] == found * 2
    assert rows(again, epoch_size=18, epoch=1)["features"] == found * 2
    assert rows(again, epoch_size=10)["features"] == [*found, found[0]]
    assert rows(again, epoch_size=18, skip_samples=9)["features"] == found


def test_words_with_tags(lu) -> None:
    found = rows(lu())
    assert found["features"] == [[1, 2, 0], [3, 4], [1, 3, 2, 0]]
    assert found["labels"][0] == [[1, 0], [0, 1], [1, 0]]


def test_each_sentence_has_a_row_of_its_own(lu) -> None:
    reader = lu(for_writing=True, keys="; nbruttsineachrecurrentiter = 9 ; equalLength = false")
    (minibatch,) = reader.minibatches(EpochSpec())
    lengths = minibatch.streams["labels"].layout.lengths.tolist()
    assert minibatch.samples == sum(lengths) < len(lengths) * max(lengths) == minibatch.columns


def test_context_and_several_words(lu) -> None:
    reader = lu(keys="; wordContext = -1:0")
    third = list(reader.minibatches(EpochSpec()))[2].streams["features"].data.toarray()
    assert [np.flatnonzero(row).tolist() for row in third] == [[1, 2, 6, 7], [1, 2, 8], [3, 7], [2, 5]]


def test_word_map(lu) -> None:
    assert rows(lu(words="; useWordMap = true"))["features"] == [[1, 1, 0], [4, 4], [1, 4, 1, 0]]


def test_tags_in_classes(lu) -> None:
    Path("tags.txt").write_text("O 0\nT 1\n")
    assert rows(lu(labels="; mode = class"))["labels"][0] == [[0, 0, 0, 1], [1, 1, 1, 2], [0, 0, 0, 1]]
    Path("tags.txt").write_text("O 1\nT 0\n")
    assert "the class of 'T' is '0'; classes are numbers that do not decrease" in error_of(lu, labels="; mode = class")


def test_errors_of_words_with_tags(lu) -> None:
    Path("lu.txt").write_text("x O\nx U\n")
    assert error_of(lu) == "lu.txt:2: 'U' is not in the list of tags, nor is the unknown word '<unk>'"
    Path("lu.txt").write_text("")
    assert error_of(lu) == "lu.txt: the text has no sentences"
    Path("words.txt").unlink()
    assert "the list of words 'words.txt' cannot be read: no such file or directory" in error_of(lu)


def test_a_mapping_file_comes_before_the_classes(lm) -> None:
    Path("none.txt").write_text("</s>\nb\na\nc\n<unk>\n")
    assert rows(lm(for_writing=True))["features"][0] == [0, 2, 1]


WRONG_LM = {
    "words twice": ({"none.txt": "</s>\na\na\n"}, {}, "none.txt:3: the word 'a' is there twice"),
    "no words": ({"none.txt": "\n"}, {}, "none.txt: the label mapping file is empty"),
    "words without a class": (
        {"none.txt": "</s>\na\nb\nc\n<unk>\nzebra\n"},
        {},
        "lm.txt:3: 'zebra' is not in the class file",
    ),
    "more labels than words": (
        {},
        {"words": "; labelDim = 6"},
        "r.cntk:3:37: labelDim=6 is larger than the class file, which has 5 words",
    ),
    "words of another type": (
        {},
        {"words": "; labelType = none"},
        "r.cntk:5:85: the words 'labelIn' must be of labelType=category",
    ),
}


@pytest.mark.parametrize("case", WRONG_LM)
def test_words_that_do_not_fit(lm, case: str) -> None:
    files, parts, message = WRONG_LM[case]
    for name, text in files.items():
        Path(name).write_text(text)
    assert error_of(lm, **parts) == message


def test_blocks_that_are_missing(lm, lu) -> None:
    for make, kind in ((lm, "LMSequenceReader"), (lu, "LUSequenceReader")):
        text = error_of(make, labels="]\n    other = [ labelDim = 3")
        assert text.startswith(f"r.cntk:2:1: reader '{kind}' needs two blocks of labels, and has 3\n")


def without(kind: type, recipe: str, *left_out: str) -> str:
    """What is said of a recipe of which parts are left out."""
    for text in left_out:
        assert text in recipe
        recipe = recipe.replace(text, "")
    with pytest.raises(CntkError) as caught:
        make_reader(kind, recipe)
    return str(caught.value)


def test_keys_that_need_others() -> None:
    assert without(LMSequenceReader, LM, "wordclass = classes.txt ").endswith(
        'mode=class needs a class file\n    Add wordclass="..." to the reader, or mode=softmax.'
    )
    softmax = LM.replace("{features}", "; mode = softmax")
    assert without(LMSequenceReader, softmax, "wordclass = classes.txt ", "labelMappingFile = none.txt ; ").endswith(
        'the words have no numbers\n    Add labelMappingFile="..." to the labels, or wordclass="..." to the reader.'
    )
    assert without(LUSequenceReader, LU.replace("{words}", "; useWordMap = true"), "wordmap = map.txt ").endswith(
        'useWordMap=true needs a word map\n    Add wordmap="..." to the reader.'
    )
    assert without(LUSequenceReader, LU, "    features = [ dim = 0 ]\n").endswith(
        "reader 'LUSequenceReader' needs a block of features\n"
        "    Add features=[ dim=... ] for the input of the network."
    )


WRONG_LU = {
    "isProposal": ({"labels": "; isProposal = true"}, "isProposal=true is not supported"),
    "ignoresentencebegintag": (
        {"keys": "; ignoresentencebegintag = true"},
        "ignoresentencebegintag=true is not supported",
    ),
}


@pytest.mark.parametrize("case", WRONG_LU)
def test_what_is_not_supported(lu, case: str) -> None:
    parts, message = WRONG_LU[case]
    assert message in error_of(lu, **parts)


def test_word_maps_that_do_not_fit(lu) -> None:
    Path("map.txt").write_text("EOS EOS\nx\n")
    assert error_of(lu, words="; useWordMap = true") == (
        "map.txt:2: the line has 1 column; the word map needs a word and another"
    )
    Path("map.txt").write_text("EOS EOS\nx q\n")
    assert error_of(lu, words="; useWordMap = true", keys="; unk = nothing").startswith(
        "r.cntk:3:37: the word map makes 'x' another word, but 'q' is not in the list of words, nor is the unknown "
        "word 'nothing'\n"
    )


def test_which_labels_go_in(lu) -> None:
    """By their names the first goes in, unless the recipe says otherwise."""
    expected = rows(lu())
    assert rows(lu(keys="; inputLabel = LABELIN ; outputLabel = labels")) == expected
    Path("words.txt").write_text("O\nT\n")
    Path("tags.txt").write_text("EOS\nx\ny\nz\n<unk>\n")
    for keys in ("; inputLabel = labels", "; outputLabel = labelIn"):
        swapped = rows(lu(keys=keys, words="; labelDim = 2", labels="; labelDim = 5 ; endSequence = EOS"))
        assert swapped["features"] == expected["features"]
        assert swapped["labelIn"] == expected["labels"]
