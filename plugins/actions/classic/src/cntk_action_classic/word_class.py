"""The action writeWordAndClass: a vocabulary, and word classes of about equal mass, from a text of sentences in lines.

Words are sorted by their number of occurrences; words that occur equally often are in the original's order. A class
gets the next words until its share of the sum of the square roots of the frequencies is used up (the frequency binning
of Mikolov et al., "Extensions of recurrent neural network language model", ICASSP 2011, with square roots as RNNLM has
it).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs

from cntk_action_classic.original_order import Heap, Word, table_order
from cntk_core.api import Action, Config, ConfigError, DataError, TrainingError
from cntk_core.api.builders import write_file
from cntk_core.api.recipes import RecipeContext


@attrs.frozen
class Settings:
    """The keys of the section.

    Attributes:
        input_file: the text, a sentence per line, words separated by blanks and tabs.
        vocabulary_file, word_file, class_file, mapping_file: what is written; empty: not this one.
        vocabulary_size: words that are kept, the one for unknown words included.
        classes: number of classes; 0: no classes, and all words are kept, in the order of their bytes.
        cutoff: words that occur so often at most are never kept.
        unknown: the word that stands for those that are not kept.
        begin, end: marks that each sentence gets if it lacks them; empty: none.
    """

    input_file: str
    vocabulary_file: str
    word_file: str
    class_file: str
    mapping_file: str
    vocabulary_size: int
    classes: int
    cutoff: int
    unknown: bytes
    begin: bytes
    end: bytes

    @property
    def results(self) -> list[Path]:
        """The files that decide whether there is anything to do."""
        return [Path(name) for name in (self.vocabulary_file, self.word_file, self.class_file) if name]


@attrs.frozen
class Vocabulary:
    """Words with their counts, and the class of each; classes never go down.

    Attributes:
        words: in the order of the files.
        classes: the class of each word.
        count: number of classes.
    """

    words: Sequence[Word]
    classes: Sequence[int]
    count: int

    def first_words(self) -> list[int]:
        """Return the index of the first word of each class, 0 for a class without words."""
        first = [0] * self.count
        for index in range(len(self.words) - 1, -1, -1):
            if self.classes[index] < self.count:
                first[self.classes[index]] = index
        return first


class WordClassAction(Action):
    """Makes a vocabulary, and word classes of about equal mass, from a text."""

    requires_api = "1.0"
    name = "writeWordAndClass"
    writes = ("outputVocabFile", "outputWord2Cls", "outputCls2Index", "outputMappingFile")

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        _settings(section)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Read the text and write the files.

        Raises:
            DataError: the text cannot be read, or no word is left.
            TrainingError: a file cannot be written.
        """
        settings, say = _settings(section), context.log.plain
        _announce(settings, say)
        if section.boolean("makeMode", True) and _up_to_date(settings):
            say("All output files up to date.")
            return
        say(f"Reading input file inputFile: {settings.input_file}")
        try:
            with open(settings.input_file, "rb") as file:
                counts = count_words(file, settings.begin, settings.end)
        except OSError as error:
            raise DataError(
                f"Failed to open input file: {settings.input_file}: {error.strerror}",
                where=section.location("inputFile"),
            ) from None
        say(f"Vocabulary size {len(counts)}.")
        vocabulary = make_vocabulary(counts, settings, say)
        _write(vocabulary, settings, len(counts), say)


def _settings(section: Config) -> Settings:
    classes = section.integer("nbrClass", 0)
    size = section.integer("vocabSize")
    for key, value, least in (("nbrClass", classes, 0), ("vocabSize", size, 2)):
        if value < least:
            raise ConfigError(f"{key} must be at least {least}, not {value}", where=section.location(key))
    return Settings(
        input_file=section.string("inputFile"),
        vocabulary_file=section.string("outputVocabFile"),
        word_file=section.string("outputWord2Cls") if classes else "",
        class_file=section.string("outputCls2Index") if classes else "",
        mapping_file=section.string("outputMappingFile", ""),
        vocabulary_size=size,
        classes=classes,
        cutoff=section.integer("cutoff", 1),
        unknown=section.string("unk", "<unk>").encode(),
        begin=section.string("beginSequence", "").encode(),
        end=section.string("endSequence", "").encode(),
    )


def _announce(settings: Settings, say: Callable[[str], None]) -> None:
    if settings.mapping_file:
        say(f"Mapping file       --> {settings.mapping_file}")
    say(f"Vocabulary file    --> {settings.vocabulary_file}")
    if settings.classes:
        say(f"Word-to-class map  --> {settings.word_file}")
        say(f"Class-to-index map --> {settings.class_file}")
    say("")


def _up_to_date(settings: Settings) -> bool:
    """Whether all results are there and none is older than the text (which need not be there any more)."""
    source = Path(settings.input_file)
    newest = source.stat().st_mtime_ns if source.is_file() else 0
    return all(path.is_file() and path.stat().st_mtime_ns >= newest for path in settings.results)


def count_words(lines: Iterable[bytes], begin: bytes = b"", end: bytes = b"") -> Counter[bytes]:
    """Count the words of sentences. A sentence that lacks a mark gets it; two equal marks count as one."""
    counts: Counter[bytes] = Counter()
    skip = 1 if begin and begin == end else 0
    for line in lines:
        sentence = line.rstrip(b"\r\n").strip(b" ")
        if begin and begin + b" " not in sentence:
            sentence = begin + b" " + sentence
        if end and b" " + end not in sentence:
            sentence = sentence + b" " + end
        counts.update([word for word in sentence.replace(b"\t", b" ").split(b" ") if word][skip:])
    return counts


def make_vocabulary(counts: Counter[bytes], settings: Settings, say: Callable[[str], None]) -> Vocabulary:
    """Choose the words and give them classes.

    Raises:
        DataError: every word is as rare as ``cutoff``.
    """
    frequent = sum(count > settings.cutoff for count in counts.values())
    if not frequent:
        raise DataError(
            f"No word remained after cutoff with threshold {settings.cutoff}.",
            hint=f"'{settings.input_file}' has {len(counts)} different words; give a smaller cutoff, or 0.",
        )
    size = settings.vocabulary_size
    if size > frequent:
        say("Warning: actual vocabulary size is less than required.")
        say(f"\t\tRequired vocabulary size:{size}")
        say(f"\t\tActual vocabulary size:{len(counts)}")
        say(f"\t\tActual vocabulary size after cutoff:{frequent}")
        say(f"\t\tWe will change to actual vocabulary size: {frequent}")
        size = frequent
    if not settings.classes:
        return Vocabulary(sorted(counts.items()), [0] * len(counts), 0)
    words = _most_frequent(counts, size, settings.unknown)
    return Vocabulary(words, _classes(words, settings.classes), settings.classes)


def _most_frequent(counts: Counter[bytes], size: int, unknown: bytes) -> list[Word]:
    """The ``size - 1`` most frequent words, and the unknown one with the count of all others; most frequent first."""
    heap = Heap((word, counts[word]) for word in table_order(counts))
    kept: dict[bytes, int] = {}
    while heap and len(kept) - (unknown in kept) < size - 1:
        word, count = heap.pop()
        kept[word] = count
    kept[unknown] = 0
    kept[unknown] = counts.total() - sum(kept.values())
    heap = Heap((word, kept[word]) for word in table_order(kept))
    return [heap.pop() for _ in range(len(heap))]


def _classes(words: Sequence[Word], count: int) -> list[int]:
    total = sum(occurrences for _, occurrences in words)
    mass = sum(math.sqrt(occurrences / total) for _, occurrences in words)
    classes: list[int] = []
    share, current = 0.0, 0
    for _, occurrences in words:
        share += math.sqrt(occurrences / total) / mass
        # One step at a time, as the original does: a word that fills several classes leaves none of them out.
        if share > (current + 1) / count and current < count - 1:
            current += 1
        classes.append(current)
    return classes


def _write(vocabulary: Vocabulary, settings: Settings, found: int, say: Callable[[str], None]) -> None:
    words, classes = vocabulary.words, vocabulary.classes
    if settings.mapping_file:
        _write_lines(settings.mapping_file, [word for word, _ in words])
        say(f"Created label-mapping file with {found} entries.")
    table = [
        b"     %d\t     %s\t%s\t%d" % (index, b"%g" % count, word, classes[index])
        for index, (word, count) in enumerate(words)
    ]
    _write_lines(settings.vocabulary_file, table)
    say(f"Created vocabulary file with {found} entries.")
    if settings.classes:
        _write_lines(settings.word_file, [b"%d" % number for number in classes])
        say(f"Created word-to-class map with {len(words)} entries.")
        _write_lines(settings.class_file, [b"%d" % number for number in vocabulary.first_words()])
        say(f"Created class-to-index map with {vocabulary.count} entries.")


def _write_lines(path: str, lines: Iterable[bytes]) -> None:
    try:
        write_file(Path(path), [b"".join(line + b"\n" for line in lines)])
    except OSError as error:
        raise TrainingError(f"the file '{path}' cannot be written: {error.strerror}") from None
