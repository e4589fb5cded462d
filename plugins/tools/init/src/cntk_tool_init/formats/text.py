"""Text: sentences for a language model, and words with tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from cntk_core.api import DataError, Location
from cntk_tool_init.found import (
    LANGUAGE_MODEL,
    TAG,
    Data,
    Prepared,
    Stream,
    Wishes,
    several,
    some,
    word_classes,
)
from cntk_tool_init.places import inside

END, UNKNOWN = "</s>", "<unk>"
MOST_WORDS = 10_000
_VOCABULARY_KEYS = ("outputVocabFile", "outputWord2Cls", "outputCls2Index")
_VOCABULARY = ("vocab.txt", "word2cls.txt", "cls2index.txt")


class Sentences(Data):
    """A text with a sentence in each line.

    Args:
        path: the file.
        wishes: what the user says.

    Raises:
        DataError: it has no two sentences.
    """

    title = "text, a sentence in each line"
    tasks = (LANGUAGE_MODEL,)

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        self.words: Counter[str] = Counter()
        self.sentences = self.empty = 0
        for words in _sentences(path):
            self.words.update(words)
            self.sentences += 1
        self._wishes = wishes.of(self.sentences)
        if self.sentences < 2:
            raise DataError("a text for a language model needs sentences, one in each line", where=Location(str(path)))

    def seen(self) -> Sequence[str]:
        """Sentences and words."""
        common = [word for word, _ in self.words.most_common(6)]
        return [
            f"{several(self.sentences, 'sentence')}, {several(self.words.total(), 'word')}, "
            f"{len(self.words):,} different ones: {', '.join(common)}, ..."
        ]

    @property
    def odd(self) -> Sequence[str]:
        """Rare words, and text that is too little."""
        lines = []
        if len(self.words) > MOST_WORDS:
            lines.append(f"the rarest {len(self.words) - MOST_WORDS:,} words become {UNKNOWN}")
        if self.words.total() < 20 * len(self.words):
            lines.append("most words are rare, so little can be learned of them; a larger text would help")
        return lines

    @property
    def writes(self) -> Sequence[str]:
        """The parts of the text; the vocabulary is written by an action of the recipe."""
        names = (
            ["train.txt"] if self._wishes.held_out is None and not self._wishes.every else ["train.txt", "heldout.txt"]
        )
        return [*names, *_VOCABULARY]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write the text with the ends of sentences."""
        wishes = self._wishes
        names = self.writes[:-3]
        parts: list[list[str]] = [[], []]
        for number, words in enumerate(_sentences(self.path)):
            which = int(wishes.held_out is None and wishes.holds_out(number))
            parts[which].append(f"{END} {' '.join(words)} {END}\n")
        if wishes.held_out is not None:
            parts[1] = [f"{END} {' '.join(words)} {END}\n" for words in _sentences(wishes.held_out)]
        for name, lines in zip(names, parts, strict=False):
            (folder / name).write_text("".join(lines), encoding="utf-8")
        learned = {word for line in parts[0] for word in line.split()}
        vocabulary = _vocabulary(min(len(learned | {UNKNOWN}), MOST_WORDS))
        kept = _counted(folder, vocabulary)
        readers = [_text_reader(name, kept) for name in names]
        what = ("sentences to learn from", "sentences that are held out")
        return Prepared(
            Stream("features", kept, sparse=True),
            Stream("labels", 4),
            readers[0],
            readers[1] if len(readers) > 1 else (),
            sequential=True,
            words=kept,
            before=vocabulary,
            files=[
                *((name, f"{len(part):,} {text}") for name, part, text in zip(names, parts, what, strict=False)),
                ("vocab.txt", "the words: number, how often, word, class"),
            ],
        )


def _vocabulary(words: int) -> list[str]:
    """Return a section of a recipe that counts the words of ``train.txt`` and puts them into classes."""
    return [
        "Vocabulary = [",
        "    action = writeWordAndClass",
        '    inputFile = "train.txt"',
        *(f'    {key} = "{name}"' for key, name in zip(_VOCABULARY_KEYS, _VOCABULARY, strict=True)),
        f"    vocabSize = {words}",
        f"    nbrClass = {word_classes(words)}",
        "    cutoff = 0",
        f'    beginSequence = "{END}"',
        f'    endSequence = "{END}"',
        f'    unk = "{UNKNOWN}"',
        "]",
    ]


def _counted(folder: Path, section: Sequence[str]) -> int:
    """Run the section, and return how many words it has kept.

    Raises:
        CntkError: the action is not installed, or has failed.
    """
    from cntk_core.api.recipes import Log, run_recipe

    recipe = folder / "vocabulary.cntk"
    recipe.write_text("\n".join(["command = Vocabulary", *section, ""]), encoding="utf-8")
    log = Log(quiet=True)
    try:
        with inside(folder):
            run_recipe([f"configFile={recipe.name}"], log)
    finally:
        log.close()
        recipe.unlink()
    return len((folder / _VOCABULARY[0]).read_text(encoding="utf-8").splitlines())


def _sentences(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            if words := [word for word in line.split() if word not in ("<s>", END)]:
                yield words


def _text_reader(file: str, words: int) -> list[str]:
    return [
        "readerType = LMSequenceReader",
        f'file = "{file}"',
        'wordclass = "vocab.txt"',
        f'unk = "{UNKNOWN}"',
        "nbruttsineachrecurrentiter = 8           # sentences side by side",
        f"features = [ dim = {words} ; mode = class ]",
        f'labelIn = [ labelDim = {words} ; endSequence = "{END}" ]',
        f"labels = [ labelType = nextWord ; labelDim = {words} ]",
    ]


class TaggedWords(Data):
    """Words with tags: a word and its tag in each line, and an empty line behind each sentence.

    Args:
        path: the file.
        wishes: what the user says.
    """

    title = "words with tags"
    tasks = (TAG,)

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        self.sentences = list(_tagged(path))
        self._wishes = wishes.of(len(self.sentences))
        self.words = Counter(word for sentence in self.sentences for word, _ in sentence)
        self.tags = Counter(tag for sentence in self.sentences for _, tag in sentence)

    def seen(self) -> Sequence[str]:
        """Sentences, words and tags."""
        return [
            f"{several(len(self.sentences), 'sentence')}, {several(self.words.total(), 'word')}, "
            f"{len(self.words):,} different ones",
            f"{several(len(self.tags), 'tag')}: {some([tag for tag, _ in self.tags.most_common()])}",
        ]

    @property
    def odd(self) -> Sequence[str]:
        """Tags that occur once."""
        once = [tag for tag, count in self.tags.items() if count == 1]
        return [f"{several(len(once), 'tag')} occur once: {some(once)}"] if once else ()

    @property
    def writes(self) -> Sequence[str]:
        """The parts, the words and the tags."""
        two = self._wishes.held_out is not None or self._wishes.every
        return ["train.txt", *(["heldout.txt"] if two else []), "words.txt", "tags.txt"]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write the parts with ends of sentences, and the lists."""
        wishes = self._wishes
        given = list(_tagged(wishes.held_out)) if wishes.held_out is not None else None
        parts: list[list[list[tuple[str, str]]]] = [[], given or []]
        for number, sentence in enumerate(self.sentences):
            parts[int(given is None and wishes.holds_out(number))].append(sentence)
        usual = max(self.tags, key=self.tags.__getitem__)
        names = self.writes[:-2]
        for name, part in zip(names, parts, strict=False):
            text = "".join("".join(f"{w} {t}\n" for w, t in one) + f"{END} {usual}\n\n" for one in part)
            (folder / name).write_text(text, encoding="utf-8")
        known = sorted({word for one in parts[0] for word, _ in one} - {END, UNKNOWN})
        words = [END, *known, UNKNOWN]
        tags = sorted(self.tags)
        (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (folder / "tags.txt").write_text("".join(f"{tag}\n" for tag in tags), encoding="utf-8")
        readers = [_tag_reader(name, len(words), len(tags)) for name in names]
        what = ("sentences to learn from", "sentences that are held out")
        return Prepared(
            Stream("features", len(words), sparse=True),
            Stream("labels", len(tags), sparse=True),
            readers[0],
            readers[1] if len(readers) > 1 else (),
            samples=sum(map(len, parts[0])),
            sequential=True,
            files=[
                *((name, f"{len(part):,} {text}") for name, part, text in zip(names, parts, what, strict=False)),
                ("words.txt", f"the words that are known; another one is {UNKNOWN}"),
                ("tags.txt", "the tags, by number"),
            ],
        )


def _tagged(path: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield sentences. Of several columns the first is the word and the last the tag."""
    sentence: list[tuple[str, str]] = []
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            parts = line.split()
            if len(parts) == 1:
                raise DataError("a word without a tag", where=Location(str(path), number))
            if parts:
                sentence.append((parts[0], parts[-1]))
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _tag_reader(file: str, words: int, tags: int) -> list[str]:
    return [
        "readerType = LUSequenceReader",
        f'file = "{file}"',
        "wordContext = 0",
        f'unk = "{UNKNOWN}"',
        "nbruttsineachrecurrentiter = 16          # sentences side by side",
        "equalLength = false",
        "features = [ dim = 0 ]",
        f'labelIn = [ token = "words.txt" ; labelDim = {words} ; endSequence = "{END}" ]',
        f'labels = [ token = "tags.txt" ; labelDim = {tags} ; endSequence = "{END}" ]',
    ]
