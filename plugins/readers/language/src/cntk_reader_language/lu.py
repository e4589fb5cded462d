"""LUSequenceReader: a word and its tag to a line, sentences with the words around each word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    Location,
    ReaderContext,
    StreamInfo,
    UnsupportedError,
    at_least,
    collect,
    option,
    options,
    raise_problems,
)
from cntk_reader_language.options import (
    CACHE_KEYS,
    FOREIGN_KEYS,
    feature_name,
    label_names,
    say_no_cache,
    stream_shape,
    unknown_word,
)
from cntk_reader_language.order import group_near
from cntk_reader_language.sentences import SentenceReader
from cntk_reader_language.tokens import Tokens, tokens
from cntk_reader_language.vocabulary import IntArray, class_rows, one_hot, open_text, read_pairs, read_words

_SHOWN = 10
_SIDE_BY_SIDE = "Name them with readers=a:b instead, with a=[ readerType=LUSequenceReader ; ... ] and b=[ ... ]."
_ORDER = 0x6C75


@options
class LUKeys:
    """The keys of the reader's block."""

    file: Path = option(doc="The text: words and a tag to a line, an empty line after a sentence.")
    word_context: tuple[int, ...] = option(default=(0,), doc="Offsets of the words that a frame has.")
    unk: str = option(default="<unk>", doc="The word that stands for unknown ones.")
    wordmap: Path | None = option(default=None, doc="Lines 'word other': what useWordMap puts in its place.")
    nbruttsineachrecurrentiter: int = option(default=1, doc="Sentences side by side.", validator=at_least(1))
    equal_length: bool = option(default=True, doc="Only sentences of equal length side by side.")
    randomize: Literal["auto", "true", "none", "false"] = option(default="none", doc="Whether sentences are shuffled.")
    input_label: str = option(default="", doc="The block of the words, if it is not the first by name.")
    output_label: str = option(default="", doc="The block of the tags.")
    data_multi_pass: bool = option(default=False, doc="A larger epoch reads the text again.")
    ignoresentencebegintag: bool = option(default=False, doc="Refused, as by the original.")


@options
class LULabelKeys:
    """The keys of a block of labels."""

    dim: int = option(default=1, doc="Accepted.")
    label_type: Literal["category"] = option(default="category", doc="Names.")
    label_dim: int = option(default=0, doc="Accepted: the list of names decides.", validator=at_least(0))
    label_mapping_file: str = option(default="", doc="Accepted.")
    token: Path = option(doc="The names, one to a line, with mode=class each with its class.")
    mode: Literal["plain", "class"] = option(default="plain", doc="plain: one-hot; class: rows of class labels.")
    begin_sequence: str = option(default="", doc="Accepted: the text has it.")
    end_sequence: str = option(default="", doc="Ends a sentence.")
    use_word_map: bool = option(default=False, doc="Words are replaced by those of the word map.")
    is_proposal: bool = option(default=False, doc="Refused: words are not proposed by a search here.")


@options
class LUOptions(LUKeys):
    """Everything that a recipe says to the reader."""

    features: str = attrs.field()
    label_names: tuple[str, str] = attrs.field()
    labels: tuple[LULabelKeys, LULabelKeys] = attrs.field()
    where: Location | None = None
    has_cache: bool = False


class LUSequenceReader(SentenceReader):
    """Reads sentences whose words have tags."""

    options: ClassVar[type] = LUOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: LUOptions, context: ReaderContext) -> None:
        super().__init__(options, context)
        say_no_cache("LUSequenceReader", context, options.has_cache)
        self.passes = options.data_multi_pass
        source, target = options.labels
        words = read_words(source.token, "the list of words", options.where)
        self._dim = len(words)
        self._words = self._mapped(words) if source.use_word_map else words
        self._classes: Any = None
        if target.mode == "class":
            pairs = read_pairs(target.token, "the list of tags", options.where)
            self._tags = {name: number for number, name in enumerate(pairs)}
            self._classes = class_rows(_class_numbers(pairs, target.token))
        else:
            self._tags = read_words(target.token, "the list of tags", options.where)
        rows = self._dim * len(options.word_context)
        tags = len(self._tags) if self._classes is None else 4
        self._features, shape = stream_shape(context, options.features, rows, options.where)
        self._labels, self._shape = stream_shape(context, options.label_names[1], tags, options.where)
        self._streams = (
            StreamInfo(self._features, shape, sparse=True, sequence=True),
            StreamInfo(self._labels, self._shape, sequence=True),
        )
        self._problems: list[DataError] = []
        self._read()

    @classmethod
    def configure(cls, block: Config, what: str) -> LUOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        errors: list[CntkError] = []
        if block.own("ioNodeNames") is not None:
            text = "ioNodeNames, several texts in one reader, is not supported"
            errors.append(UnsupportedError(text, where=block.location("ioNodeNames"), hint=_SIDE_BY_SIDE))
        ignore = (*FOREIGN_KEYS, *CACHE_KEYS, "writerType", "ioNodeNames", *block.block_names())
        keys = collect(lambda: block.bind(LUKeys, ignore=ignore, what=what), errors)
        names = collect(lambda: label_names(block, what), errors)
        features = None if names is None else collect(lambda: feature_name(block, names or (), what), errors)
        if names is None or features is None:
            raise_problems(errors)
        assert names is not None
        assert features is not None
        first, second = block.string("inputLabel", ""), block.string("outputLabel", "")
        if first.lower() == names[1].lower() or second.lower() == names[0].lower():
            names = (names[1], names[0])
        labels = [
            collect(lambda name=name: block.section(name).bind(LULabelKeys, ignore=CACHE_KEYS, what=what), errors)
            for name in names
        ]
        if keys is not None and keys.ignoresentencebegintag:
            text = "ignoresentencebegintag=true is not supported"
            hint = "The original refuses it as well, since its version 2.0: remove it."
            errors.append(UnsupportedError(text, where=block.location("ignoresentencebegintag"), hint=hint))
        for name, label in zip(names, labels, strict=True):
            if label is not None and label.is_proposal:
                hint = "Search for words in a program of your own: docs/example-g2p.md has one."
                where = block.section(name).location("isProposal")
                errors.append(UnsupportedError("isProposal=true is not supported", where=where, hint=hint))
        if labels[0] is not None and labels[0].use_word_map and block.get("wordmap") is None:
            text = "useWordMap=true needs a word map"
            errors.append(ConfigError(text, where=block.where, hint='Add wordmap="..." to the reader.'))
        raise_problems(errors)
        bound: Any = keys
        return LUOptions(
            **attrs.asdict(bound, recurse=False),
            features=features,
            label_names=names,
            labels=tuple(labels),
            where=block.location("file"),
            has_cache=block.own("writerType") is not None,
        )

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The words around each word, one-hot side by side, and the tags."""
        return self._streams

    def _mapped(self, words: dict[str, int]) -> dict[str, int]:
        """Give each word the number of the word that the word map puts in its place; others are unknown words."""
        given: LUOptions = self.settings
        assert given.wordmap is not None
        pairs = read_pairs(given.wordmap, "the word map", given.where)
        found: dict[str, int] = {}
        errors: list[CntkError] = []
        for word in words:
            other = pairs.get(word, given.unk)
            if other not in words:
                text = unknown_word(other, given.unk, words, "the list of words", len(errors))
                errors.append(DataError(f"the word map makes '{word}' another word, but {text}", where=given.where))
            found[word] = words.get(other, -1)
        raise_problems(errors[:_SHOWN])
        return found

    def _read(self) -> None:
        """Read the text: numbers of the words around each tag, of the tags, and where sentences begin."""
        text = open_text(self.settings.file, "the text", self.settings.where)
        if not self._read_fast(text):
            self._read_lines(text)

    def _read_fast(self, text: str) -> bool:
        """Read a text in which every word has a number. Returns False, having done nothing, if it is not such a one."""
        given: LUOptions = self.settings
        found = tokens(text)
        if found is None or not (found.counts > 1).any():
            return False
        first = np.cumsum(found.counts) - found.counts
        wide = found.counts > 1
        tag = (first + found.counts - 1)[wide]
        sizes = found.counts[wide] - 1
        place = np.arange(int(sizes.max()))
        inside = place < sizes[:, None]
        at = np.where(inside, first[wide][:, None] + place, 0)
        words, tags = self._known(found, self._words)[at], self._known(found, self._tags)[tag]
        if words[inside].min() < 0 or tags.min() < 0:
            return False
        ends = found.counts == 0
        ends[wide] = found.are(given.labels[1].end_sequence)[tag] | found.are(given.labels[0].end_sequence)[first[wide]]
        rows = np.cumsum(wide)
        self._text = np.where(inside, words, -1)
        self._numbers = tags
        self.offsets = np.unique(np.concatenate([[0], rows[ends], [len(tags)]]))
        return True

    def _known(self, found: Tokens, numbers: dict[str, int]) -> IntArray:
        """Return the numbers of words; the unknown ones have that of the word for unknown ones, or -1."""
        known = found.numbers(numbers)
        known[known < 0] = numbers.get(self.settings.unk, -1)
        return known

    def _read_lines(self, text: str) -> None:
        """Read any text line by line, and say what is wrong with it."""
        given: LUOptions = self.settings
        source, target = given.labels
        words: list[list[int]] = []
        tags: list[int] = []
        offsets = [0]
        for number, line in enumerate(text.split("\n"), start=1):
            fields = line.split()
            ends = not fields
            if len(fields) >= 2:
                place = Location(str(given.file), number)
                words.append([self._number(word, self._words, "words", place) for word in fields[:-1]])
                tags.append(self._number(fields[-1], self._tags, "tags", place))
                ends = fields[-1] == target.end_sequence or fields[0] == source.end_sequence
            if ends and len(tags) > offsets[-1]:
                offsets.append(len(tags))
        if len(tags) > offsets[-1]:
            offsets.append(len(tags))
        if not tags:
            self._problems.append(DataError("the text has no sentences", where=Location(str(given.file))))
        most = max((len(own) for own in words), default=1)
        self._text = np.full((len(words), most), -1, dtype=np.int64)
        for i, own in enumerate(words):
            self._text[i, : len(own)] = own
        self._numbers = np.array(tags, dtype=np.int64)
        self.offsets = np.array(offsets, dtype=np.int64)

    def _number(self, word: str, numbers: dict[str, int], what: str, place: Location) -> int:
        found = numbers.get(word, numbers.get(self.settings.unk, -1))
        if found < 0:
            text = unknown_word(word, self.settings.unk, numbers, f"the list of {what}", len(self._problems))
            self._problems.append(DataError(text, where=place))
        return found

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the text."""
        return iter(self._problems)

    def groups(self, sweep: int, size: int) -> list[IntArray]:
        """Return the sentences side by side."""
        given: LUOptions = self.settings
        count = len(self.offsets) - 1
        order = np.arange(count)
        if given.randomize in ("auto", "true") and not self.context.for_writing:
            order = np.random.Generator(np.random.Philox(key=[sweep, _ORDER])).permutation(count)
        return group_near(order, np.diff(self.offsets), given.nbruttsineachrecurrentiter, equal=given.equal_length)

    def frames(self, rows: IntArray, sweep: int, turn: int) -> dict[str, Any]:
        """Return the words around each frame (at the ends of a sentence its first or last word), and the tags."""
        sentences = np.searchsorted(self.offsets, rows, side="right") - 1
        first, last = self.offsets[sentences], self.offsets[sentences + 1] - 1
        columns = []
        for place, offset in enumerate(self.settings.word_context):
            near = self._text[np.clip(rows + offset, first, last)]
            columns.append(np.where(near >= 0, near + place * self._dim, -1))
        words = np.concatenate(columns, axis=1)
        features = one_hot(words, self._dim * len(columns), self.context.dtype)
        numbers = self._numbers[rows]
        labels = np.eye(len(self._tags))[numbers] if self._classes is None else self._classes[numbers]
        return {self._features: features, self._labels: labels.astype(self.context.dtype).reshape(-1, *self._shape)}


def _class_numbers(pairs: dict[str, str], path: Path) -> IntArray:
    """Return the class of each tag. Raises DataError if it is no number, or not in order."""
    numbers: list[int] = []
    for name, group in pairs.items():
        usual = group.isascii() and group.isdigit() and len(group) < 10
        if not usual or int(group) < (numbers[-1] if numbers else 0):
            text = f"the class of '{name}' is '{group[:40]}'; classes are numbers that do not decrease"
            raise DataError(text, where=Location(str(path)))
        numbers.append(int(group))
    return np.array(numbers, dtype=np.int64)
