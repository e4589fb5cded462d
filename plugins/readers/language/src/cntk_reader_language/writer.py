"""LUSequenceWriter and LMSequenceWriter: the best elements of each frame as names, one line for each sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TextIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    DataWriter,
    Location,
    NoOptions,
    Problems,
    SequenceOutput,
    WriterContext,
    ask_to_write,
    at_least,
    collect,
    did_you_mean,
    option,
    options,
    raise_problems,
)
from cntk_reader_language.vocabulary import read_word_classes, read_words


@options
class OutputKeys:
    """The keys of an output's block."""

    file: Path = option(doc="The file to write.")
    token: Path = option(doc="The names, one to a line, in the order of the node's elements.")
    nbest: int = option(default=1, doc="How many names are written for each frame, best first.", validator=at_least(1))


@options
class Output:
    """One output node and its file."""

    name: str
    file: Path
    token: Path
    nbest: int = 1
    where: Location | None = None


@options
class LUWriterOptions:
    """Everything that a recipe says to the writer."""

    outputs: tuple[Output, ...] = attrs.field()
    where: Location | None = None


class NameWriter(DataWriter):
    """Writes the name of the largest element of each frame, or of the ``nbest`` largest ones that are not zero."""

    options: ClassVar[type] = LUWriterOptions
    requires_api: ClassVar[str] = "1.0"
    other_keys: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def names_in(path: Path, where: Location | None) -> Mapping[str, int]:
        """Return the names of a list, in the order of the node's elements. Raises DataError or Problems."""
        return read_words(path, "the list of names", where)

    def __init__(self, options: LUWriterOptions, context: WriterContext) -> None:
        super().__init__(options, context)
        nodes = {name.lower(): name for name in context.outputs}
        errors: list[CntkError] = []
        self._outputs: dict[str, Output] = {}
        self._names: dict[str, list[str]] = {}
        self._files: dict[str, TextIO] = {}
        for output in options.outputs:
            node = nodes.get(output.name.lower())
            if node is None:
                text = f"{self._title}: the action writes no node '{output.name}'{did_you_mean(output.name, nodes)}"
                hint = f"It writes: {', '.join(context.outputs)}; outputNodeNames of the section says which."
                errors.append(ConfigError(text, where=output.where, hint=hint))
                continue
            self._outputs[node] = output
            collect(lambda output=output: ask_to_write(output.file, key="file", where=output.where), errors)
            words: Mapping[str, int] = {}
            try:
                words = self.names_in(output.token, output.where)
            except Problems as problems:
                errors += problems.errors
            except DataError as error:
                errors.append(error)
            self._names[node] = list(words)
        if not options.outputs:
            hint = "outputNodeNames=z ; z=[ file=... ; token=... ]"
            errors.append(ConfigError(f"{self._title} has no outputNodeNames", where=options.where, hint=hint))
        raise_problems(errors)

    @property
    def _title(self) -> str:
        return type(self).__name__

    @classmethod
    def configure(cls, block: Config, what: str) -> LUWriterOptions:
        """Read the writer's block and a sub-block for each of its ``outputNodeNames``. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.strings("outputNodeNames", ())
        collect(lambda: block.bind(NoOptions, ignore=("outputNodeNames", *cls.other_keys, *names), what=what), errors)
        outputs: list[Any] = [collect(lambda name=name: _read_output(block, name, what), errors) for name in names]
        raise_problems(errors)
        return LUWriterOptions(outputs=tuple(outputs), where=block.where)

    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next sentences, a line for each."""
        for node, output in self._outputs.items():
            file = self._open(node, output)
            for sentence in outputs[node]:
                values = np.asarray(sentence.values)
                file.write("".join(f"{name} " for name in _best(values, self._names[node], output.nbest)) + "\n")

    def _open(self, node: str, output: Output) -> TextIO:
        file = self._files.get(node)
        if file is None:
            try:
                output.file.parent.mkdir(parents=True, exist_ok=True)
                file = output.file.open("w", encoding="utf-8", errors="surrogateescape", newline="\n")
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise DataError(f"'{output.file}' cannot be written: {reason}", where=output.where) from None
            self._files[node] = file
        return file

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()


class LUSequenceWriter(NameWriter):
    """Writes the tags of each word; ``token`` has a name in each line."""


class LMSequenceWriter(NameWriter):
    """Writes the words that are expected; ``token`` is a class file with lines ``number count word class``."""

    other_keys: ClassVar[tuple[str, ...]] = ("unk",)  # only those who read words need it

    @staticmethod
    def names_in(path: Path, where: Location | None) -> Mapping[str, int]:
        """Return the words of a class file. Raises DataError or Problems."""
        return read_word_classes(path, where).words


def _read_output(block: Config, name: str, what: str) -> Output:
    section = block.section(name)
    keys = section.bind(OutputKeys, what=f"output '{name}' of {what}")
    return Output(name=name, file=keys.file, token=keys.token, nbest=keys.nbest, where=section.where)


def _best(values: NDArray[Any], names: Sequence[str], nbest: int) -> list[str]:
    """Return the names of the best elements of each frame; elements without a name do not count."""
    known = values[:, : len(names)]
    if nbest == 1:
        return [names[number] for number in known.argmax(axis=1).tolist()]
    order = np.argsort(-known, axis=1, kind="stable")[:, :nbest]
    return [names[i] for frame, best in zip(known, order.tolist(), strict=True) for i in best if frame[i] != 0]
