"""LMSequenceReader: one sentence to a line, each word predicts the next."""

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
from cntk_reader_language.order import blocks, group_equal, shuffled
from cntk_reader_language.sentences import SentenceReader
from cntk_reader_language.tokens import Tokens, tokens
from cntk_reader_language.vocabulary import IntArray, WordClasses, one_hot, open_text, read_word_classes, read_words

_SHORTEST = 3
"""Words of a line; shorter ones are left out, as in the original."""
_FIRST_WORD = 1e-6
"""How the word 0 is written with mode=softmax: not as zero, as in the original."""
_NOISE = 0x6E6F697365


@options
class LMKeys:
    """The keys of the reader's block."""

    file: Path = option(doc="The text, one sentence to a line.")
    wordclass: Path | None = option(default=None, doc="Lines 'number count word class'.")
    unk: str = option(default="<unk>", doc="The word that stands for unknown ones.")
    nbruttsineachrecurrentiter: int = option(
        default=1, doc="Sentences side by side; 0: as many as fit.", validator=at_least(0)
    )
    cache_block_size: int = option(default=50000, doc="Words that are shuffled together.", validator=at_least(1))
    randomize: str = option(default="", doc="Accepted: sentences are always shuffled, except to write.")


@options
class LMLabelKeys:
    """The keys of a block of labels."""

    dim: int = option(default=1, doc="Accepted.")
    label_type: Literal["category", "nextWord", "none"] = option(default="category", doc="What is learned.")
    label_dim: int = option(default=0, doc="Number of words; 0: as many as there are.", validator=at_least(0))
    label_mapping_file: Path | None = option(default=None, doc="The words, one to a line.")
    begin_sequence: str = option(default="", doc="Accepted: the text has it.")
    end_sequence: str = option(default="", doc="The word at the end of a sentence.")


@options
class LMFeatureKeys:
    """The keys of the block of features."""

    dim: int = option(doc="Accepted.", validator=at_least(0))
    mode: Literal["class", "softmax", "nce"] = option(default="class", doc="What the rows of the labels are.")
    noise_number: int = option(default=0, key="noise_number", doc="Noise words with mode=nce.", validator=at_least(0))


@options
class LMOptions(LMKeys):
    """Everything that a recipe says to the reader."""

    features: str = attrs.field()
    label_names: tuple[str, str] = attrs.field()
    feature_keys: LMFeatureKeys = attrs.field()
    labels: tuple[LMLabelKeys, LMLabelKeys] = attrs.field()
    where: Location | None = None
    has_cache: bool = False


class LMSequenceReader(SentenceReader):
    """Reads sentences for a language model."""

    options: ClassVar[type] = LMOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: LMOptions, context: ReaderContext) -> None:
        super().__init__(options, context)
        say_no_cache("LMSequenceReader", context, options.has_cache)
        self.cuts = options.nbruttsineachrecurrentiter > 0
        self._classes = None if options.wordclass is None else read_word_classes(options.wordclass, options.where)
        self._mode = options.feature_keys.mode
        self._noise = options.feature_keys.noise_number
        if self._classes is None and self._mode != "softmax" and options.labels[1].label_type != "none":
            text = f"mode={self._mode} needs a class file"
            raise ConfigError(text, where=options.where, hint='Add wordclass="..." to the reader, or mode=softmax.')
        words = [_words(keys, self._classes, options) for keys in options.labels]
        if options.labels[1].label_type == "nextWord":
            words[1] = words[0]
        self._words = words
        dim = max(options.labels[0].label_dim, len(words[0]))
        self._features, shape = stream_shape(context, options.features, dim, options.where)
        self._dim = dim
        streams = [StreamInfo(self._features, shape, sparse=True, sequence=True)]
        self._labels = ""
        if options.labels[1].label_type != "none":
            rows = {"class": 4, "softmax": 1, "nce": 2 * (self._noise + 1)}[self._mode]
            self._labels, shape = stream_shape(context, options.label_names[1], rows, options.where)
            self._shape = shape
            streams.append(StreamInfo(self._labels, shape, sequence=True))
        self._streams = tuple(streams)
        self._problems: list[DataError] = []
        self._read()

    @classmethod
    def configure(cls, block: Config, what: str) -> LMOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        errors: list[CntkError] = []
        ignore = (*FOREIGN_KEYS, *CACHE_KEYS, "writerType", *block.block_names())
        keys = collect(lambda: block.bind(LMKeys, ignore=ignore, what=what), errors)
        names = collect(lambda: label_names(block, what), errors)
        features = None if names is None else collect(lambda: feature_name(block, names, what), errors)
        if names is None or features is None:
            raise_problems(errors)
        assert names is not None
        assert features is not None
        bound = collect(lambda: block.section(features).bind(LMFeatureKeys, ignore=CACHE_KEYS, what=what), errors)
        labels = [
            collect(lambda name=name: block.section(name).bind(LMLabelKeys, ignore=CACHE_KEYS, what=what), errors)
            for name in names
        ]
        if labels[0] is not None and labels[0].label_type != "category":
            where = block.section(names[0]).location("labelType")
            errors.append(ConfigError(f"the words '{names[0]}' must be of labelType=category", where=where))
        raise_problems(errors)
        given: Any = keys
        return LMOptions(
            **attrs.asdict(given, recurse=False),
            features=features,
            label_names=names,
            feature_keys=bound,
            labels=tuple(labels),
            where=block.location("file"),
            has_cache=block.own("writerType") is not None,
        )

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The words, one-hot, and the labels."""
        return self._streams

    def _read(self) -> None:
        """Read the text: numbers of the words and of those that follow."""
        text = open_text(self.settings.file, "the text", self.settings.where)
        if not self._read_fast(text):
            self._read_lines(text)

    def _read_fast(self, text: str) -> bool:
        """Read a text in which every word has a number. Returns False, having done nothing, if it is not such a one."""
        given: LMOptions = self.settings
        end = given.labels[0].end_sequence
        usual = not end or (end == end.lower() and text.lower().count(end) == text.count(end))
        found = tokens(text) if usual else None
        if found is None:
            return False
        kept = found.counts >= _SHORTEST
        long = np.repeat(kept, found.counts)
        lengths = found.counts[kept]
        last = np.cumsum(lengths) - 1
        inputs = self._known(found, 0)[long]
        following = inputs
        if self._labels:
            others = inputs if self._words[1] is self._words[0] else self._known(found, 1)[long]
            following = np.delete(others, last + 1 - lengths)
            inputs = np.delete(inputs, last)
            lengths = lengths - 1
        limit = len(self._classes.rows) if self._classes is not None and self._labels else np.iinfo(np.int64).max
        if not len(inputs) or min(inputs.min(), following.min()) < 0 or following.max() >= limit:
            return False
        self._text = inputs
        self._next = following if self._labels else np.zeros(0, dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self._tokens = found.counts[kept].tolist()
        return True

    def _known(self, found: Tokens, kind: int) -> IntArray:
        """Return the numbers of words; the unknown ones have that of the word for unknown ones, or -1."""
        words = self._words[kind]
        numbers = found.numbers(words)
        numbers[numbers < 0] = words.get(self.settings.unk, -1)
        return numbers

    def _read_lines(self, text: str) -> None:
        """Read any text line by line, and say what is wrong with it."""
        given: LMOptions = self.settings
        ends = given.labels[0].end_sequence.lower()
        learns = bool(self._labels)
        words: list[int] = []
        following: list[int] = []
        offsets = [0]
        self._tokens = []
        for number, line in enumerate(text.split("\n"), start=1):
            sentence = line.split()
            if len(sentence) < _SHORTEST:
                continue
            place = Location(str(given.file), number)
            same = given.labels[1].label_type == "nextWord"
            last = [given.labels[0].end_sequence if same and w.lower() == ends else w for w in sentence[1:]]
            words += [self._number(word, 0, place) for word in (sentence[:-1] if learns else sentence)]
            following += [self._number(word, 1, place) for word in last] if learns else []
            offsets.append(len(words))
            self._tokens.append(len(sentence))
        self._text = np.array(words, dtype=np.int64)
        self._next = np.array(following, dtype=np.int64)
        self.offsets = np.array(offsets, dtype=np.int64)
        if not words:
            self._problems.append(DataError("the text has no sentences", where=Location(str(given.file))))

    def _number(self, word: str, kind: int, place: Location) -> int:
        words = self._words[kind]
        found = words.get(word, words.get(self.settings.unk, -1))
        if found < 0:
            what = f"the words of '{self.settings.label_names[kind]}'"
            text = unknown_word(word, self.settings.unk, words, what, len(self._problems))
            self._problems.append(DataError(text, where=place))
        elif kind == 1 and self._classes is not None and found >= len(self._classes.rows):
            self._problems.append(DataError(f"'{word}' is not in the class file", where=place))
        return found

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the text."""
        return iter(self._problems)

    def groups(self, sweep: int, size: int) -> list[IntArray]:
        """Return sentences of equal length side by side, block by block of the text, shuffled as in the original."""
        given: LMOptions = self.settings
        lengths = np.diff(self.offsets)
        found: list[IntArray] = []
        for turn, (first, last) in enumerate(blocks(self._tokens, given.cache_block_size), start=1):
            count = last - first
            order = np.arange(count) if self.context.for_writing else shuffled(count, sweep + turn)
            found += group_equal(first + order, lengths, given.nbruttsineachrecurrentiter, size)
        return found

    def frames(self, rows: IntArray, sweep: int, turn: int) -> dict[str, Any]:
        """Return one-hot words, and the rows of the labels."""
        found = {self._features: one_hot(self._text[rows][:, None], self._dim, self.context.dtype)}
        if self._labels:
            labels = self._label_rows(self._next[rows], sweep, turn)
            found[self._labels] = labels.astype(self.context.dtype).reshape(-1, *self._shape)
        return found

    def _label_rows(self, numbers: IntArray, sweep: int, turn: int) -> Any:
        if self._mode == "softmax":
            return np.where(numbers == 0, _FIRST_WORD, numbers)[:, None]
        assert self._classes is not None
        if self._mode == "class":
            return self._classes.rows[numbers]
        chances = self._classes.counts / self._classes.counts.sum()
        logs = np.log(np.maximum(chances, np.finfo(np.float64).tiny))
        key = [(sweep << 32) + turn, _NOISE]
        noise = np.random.Generator(np.random.Philox(key=key)).choice(
            len(chances), size=(len(numbers), self._noise), p=chances
        )
        found = np.empty((len(numbers), 2 * (self._noise + 1)))
        found[:, 0], found[:, 1] = numbers, logs[numbers]
        found[:, 2::2], found[:, 3::2] = noise, -logs[noise]
        return found


def _words(keys: LMLabelKeys, classes: WordClasses | None, options: LMOptions) -> dict[str, int]:
    """Return the numbers of words: of the mapping file if it is there, else of the class file."""
    if keys.label_type != "category":
        return {}
    path = keys.label_mapping_file
    if path is not None and (path.exists() or classes is None):
        words = read_words(path, "the label mapping file", options.where)
    elif classes is not None:
        words = dict(classes.words)
    else:
        hint = 'Add labelMappingFile="..." to the labels, or wordclass="..." to the reader.'
        raise ConfigError("the words have no numbers", where=options.where, hint=hint)
    if classes is not None and keys.label_dim > len(classes.words):
        text = f"labelDim={keys.label_dim} is larger than the class file, which has {len(classes.words)} words"
        raise ConfigError(text, where=options.where)
    return words
