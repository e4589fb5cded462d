"""The recipe of the README: run, stopped, resumed, with broken data; and what the writer keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_reader_language import LUSequenceWriter

from cntk_core.api import WriterContext
from cntk_core.api.builders import parse_text
from cntk_testing import README, PackagingContract, ReaderRecipe, WriterContract


def write_texts(folder: Path) -> None:
    """Words with tags."""
    words = ["x", "y", "z", "x", "y", "x", "x", "z", "other", "x", "y", "y", "z"]
    ends = ["EOS O\n\n" if n % 3 == 2 else "" for n in range(len(words))]
    lines = [f"{word} {'T' if word == 'y' else 'O'}\n{end}" for word, end in zip(words, ends, strict=True)]
    (folder / "train.txt").write_text("".join(lines) * 3)
    (folder / "words.txt").write_text("EOS\nx\ny\nz\n<unk>\n")
    (folder / "tags.txt").write_text("O\nT\n")


class TestWordsWithTags(ReaderRecipe):
    recipe = README
    recipe_key = "LUSequenceReader"

    def files(self, folder: Path) -> None:
        write_texts(folder)

    def break_data(self, folder: Path) -> None:
        with (folder / "train.txt").open("a") as file:
            file.write("x NOUN\n")


class TestLanguageModel(ReaderRecipe):
    recipe = README
    recipe_key = "LMSequenceReader"

    def files(self, folder: Path) -> None:
        (folder / "classes.txt").write_text("0 9 </s> 0\n1 5 a 0\n2 4 b 1\n3 3 c 1\n4 1 <unk> 2\n")
        sentences = ("a b", "c a b", "b c", "a a", "c b a")
        (folder / "sentences.txt").write_text("".join(f"</s> {words} </s>\n" for words in sentences * 3))

    def break_data(self, folder: Path) -> None:
        (folder / "sentences.txt").write_text("\n")


class TestWriter(WriterContract):
    recipe = README
    outputs = {"z": 2}

    def files(self, folder: Path) -> None:
        write_texts(folder)

    @pytest.fixture
    def writer_factory(self):
        def make(folder: Path, context: WriterContext) -> LUSequenceWriter:
            (folder.parent / "tags.txt").write_text("O\nT\n")
            block = f'z=[ file="{folder}/out.txt" ; token="{folder.parent}/tags.txt" ]'
            config = parse_text(f"writer=[ outputNodeNames=z ; {block} ]").section("writer")
            return LUSequenceWriter(LUSequenceWriter.settings_from(config, "the writer"), context)

        return make


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-language"
    kind = "writer"
