"""Kaldi2Reader as a writer: values of output nodes as matrices of a Kaldi archive, one for each utterance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

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
    SequenceOutput,
    WriterContext,
    ask_to_write,
    collect,
    did_you_mean,
    option,
    options,
    raise_problems,
)
from cntk_reader_kaldi.sinks import ArchiveOutput, Specifier
from cntk_reader_kaldi.tables import read_lines

_READER_KEYS = ("readMethod", "frameMode", "minibatchMode", "randomize", "truncated", "nbruttsineachrecurrentiter")
"""Keys of readers that recipes give the writer, too; they say nothing about what is written."""


@options
class WriterKeys:
    """The keys of the writer's own block."""

    overflow_value: float = option(default=50.0, doc="A larger value becomes the logarithm of the number of frames.")
    max_num_overflow_warning: int = option(default=10, doc="Utterances with such values that are named.")
    allow_commands: bool = option(default=False, doc="Kaldicmd may be a command (ark:| ...).")
    verbosity: int = option(default=0, doc="Accepted.")
    trace_level: int = option(default=1, doc="Accepted.")


@options
class OutputKeys:
    """The keys of an output's block."""

    dim: int = option(doc="Values of a frame.")
    scp_file: Path | None = option(default=None, aliases=("file",), doc="List of the utterances, a key to a line.")
    kaldicmd: str = option(
        default="",
        key="Kaldicmd",
        doc="Where the archive goes: ark:FILE, ark,t:FILE, ark,scp:FILE,LIST, ark:-, ark:|...",
    )


@options
class Output:
    """An output node: its archive, or one for each utterance, as the list names them."""

    name: str
    dim: int
    archive: Specifier | None = None
    keys: tuple[str, ...] = ()
    where: Location | None = None
    dim_where: Location | None = None


@options
class WriterOptions:
    """Everything that a recipe says to the writer."""

    outputs: tuple[Output, ...] = attrs.field()
    keys: WriterKeys = attrs.field(factory=WriterKeys)
    where: Location | None = None


class Kaldi2Writer(DataWriter):
    """Writes a matrix for each utterance, under its key, to one archive or to a file of its own."""

    options: ClassVar[type] = WriterOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: WriterOptions, context: WriterContext) -> None:
        super().__init__(options, context)
        self._outputs: dict[str, Output] = {}
        self._archives: dict[str, ArchiveOutput] = {}
        self._done = self._warned = 0
        names = {name.lower(): name for name in context.outputs}
        errors: list[CntkError] = []
        for output in options.outputs:
            name = names.get(output.name.lower())
            if name is None:
                text = f"Kaldi2Reader: the action writes no node '{output.name}'{did_you_mean(output.name, names)}"
                hint = f"It writes: {', '.join(context.outputs)}; outputNodeNames of the section says which."
                errors.append(ConfigError(text, where=output.where, hint=hint))
                continue
            if context.outputs[name] != output.dim:
                text = f"the node '{name}' has {context.outputs[name]} values, not dim={output.dim}"
                hint = f"Set dim={context.outputs[name]}."
                errors.append(ConfigError(text, where=output.dim_where, hint=hint))
            self._outputs[name] = output
            collect(lambda output=output: _ask(output, options.keys.allow_commands), errors)
        raise_problems(errors)
        try:
            for name, output in self._outputs.items():
                if output.archive is not None:
                    self._archives[name] = ArchiveOutput(output.archive)
        except BaseException:
            self.discard()
            raise

    @classmethod
    def configure(cls, block: Config, what: str) -> WriterOptions:
        """Read the writer's block and a sub-block for each of its ``outputNodeNames``. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.strings("outputNodeNames", ())
        known = ("outputNodeNames", *names, *_READER_KEYS)
        keys = collect(lambda: block.bind(WriterKeys, ignore=known, what=what), errors)
        outputs = [collect(lambda name=name: _read_output(block, name, what), errors) for name in names]
        if not names:
            hint = 'outputNodeNames=z ; writer=[ ... z=[ dim=... ; Kaldicmd="ark:z.ark" ] ]'
            errors.append(ConfigError(f"{what} has no outputNodeNames", where=block.where, hint=hint))
        raise_problems(errors)
        targets = [one.archive.target for one in outputs if one.archive is not None]
        if len(set(targets)) < len(targets):
            twice = next(target for target in targets if targets.count(target) > 1)
            text = f"{what}: two outputs are written to '{twice}'"
            raise ConfigError(text, where=block.where, hint="Each archive has the values of one node.")
        return WriterOptions(outputs=tuple(outputs), keys=keys, where=block.where)

    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next utterances."""
        count = 0
        for name, output in self._outputs.items():
            count = len(outputs[name])
            for place, sequence in enumerate(outputs[name]):
                key, listed = self._name(output, sequence.key, self._done + place)
                assert isinstance(sequence.values, np.ndarray), "the action write gives dense values"
                self._write_one(name, key, listed, self._limited(sequence.values, key))
        self._done += count

    def close(self) -> None:
        """End the archives."""
        for archive in self._archives.values():
            archive.close()
        self._archives.clear()

    def discard(self) -> None:
        """Remove the archives, which are not whole."""
        for archive in self._archives.values():
            archive.discard()
        self._archives.clear()

    def _name(self, output: Output, key: str, number: int) -> tuple[str, str]:
        """Return the key of an utterance and its entry in the list. Raises DataError."""
        if not output.keys:
            return key or str(number), key or str(number)
        known = {_bare(listed): listed for listed in output.keys}
        if key:
            listed = known.get(key, known.get(_bare(key)))
        else:
            listed = output.keys[number] if number < len(output.keys) else None
        if listed is None:
            raise DataError(
                f"Kaldi2Reader: utterance {number + 1} ('{key}') is not in the list of '{output.name}', "
                f"which has {len(output.keys)}",
                where=output.where,
                hint="The list needs a line for each utterance that is read.",
            )
        return _bare(listed), listed

    def _write_one(self, name: str, key: str, listed: str, values: NDArray[Any]) -> None:
        trace = self.context.trace
        archive = self._archives.get(name)
        if archive is not None:
            archive.add(key, values.astype(np.float32))
        else:
            single = ArchiveOutput(Specifier(target=listed, where=self._outputs[name].where))
            single.add(key, values)
            single.close()
        if trace is not None:
            trace(f"evaluate: writing {len(values)} frames of {key}")

    def _limited(self, values: NDArray[Any], key: str) -> NDArray[Any]:
        """Return values of which none is larger than ``overflowValue``."""
        keys, trace = self.settings.keys, self.context.trace
        large = values > keys.overflow_value
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad and trace is not None:
            trace(f"WARNING: Kaldi2Reader: {bad} values of '{key}' are not finite ({len(values)} frames)")
        if not large.any():
            return values
        # The original's rule: as if all frames, not all classes, were equally likely.
        instead = math.log(len(values))
        self._warned += 1
        if trace is not None and self._warned <= keys.max_num_overflow_warning:
            trace(
                f"WARNING: Kaldi2Reader: {np.count_nonzero(large)} values of '{key}' are larger than "
                f"overflowValue={keys.overflow_value:g} and become {instead:.4g}"
            )
        return np.where(large, np.asarray(instead, dtype=values.dtype), values)


def _bare(listed: str) -> str:
    """Return the key that an entry of a list means: of a path the file's name without its ending."""
    return Path(listed).stem if "/" in listed else listed


def _ask(output: Output, allow_commands: bool) -> None:
    """Ask whether an output may be written. Raises RefusedError."""
    if output.archive is not None:
        output.archive.check(allow_commands)
    else:
        for path in output.keys:
            ask_to_write(path, key="scpFile", where=output.where)


def _read_output(block: Config, name: str, what: str) -> Output:
    section = block.section(name)
    keys = section.bind(OutputKeys, ignore=("type",), what=f"output '{name}' of {what}")
    if section.string("type", "real").lower() != "real":
        raise ConfigError(f"the type of output '{name}' must be real", where=section.location("type"))
    listing = "scpFile" if section.own("scpFile") is not None else "file"
    where = section.location(listing if keys.scp_file is not None else "Kaldicmd")
    if keys.scp_file is None and not keys.kaldicmd:
        hint = 'Kaldicmd="ark:FILE" writes an archive; scpFile alone is a list of files, one for each utterance.'
        raise ConfigError(f"output '{name}' of {what} has neither Kaldicmd nor scpFile", where=section.where, hint=hint)
    listed = [] if keys.scp_file is None else read_lines(keys.scp_file, where, "list of utterances to write")
    return Output(
        name=name,
        dim=keys.dim,
        archive=Specifier.parse(keys.kaldicmd, section.location("Kaldicmd")) if keys.kaldicmd else None,
        keys=tuple(words[0] for _, words in listed),
        where=where,
        dim_where=section.location("dim"),
    )
