"""HTKMLFWriter: the values of output nodes as HTK feature files, one for each utterance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    DataWriter,
    Location,
    NoOptions,
    SequenceOutput,
    WriterContext,
    ask_to_write,
    collect,
    did_you_mean,
    option,
    options,
    raise_problems,
)
from cntk_reader_htk.htkfile import write_features
from cntk_reader_htk.options import check_type
from cntk_reader_htk.scp import read_lines


@options
class OutputKeys:
    """The keys of an output's block."""

    dim: int = option(doc="Values of a frame.")
    scp_file: Path = option(aliases=("file",), doc="List of the files to write, one for each utterance.")


@options
class Output:
    """One output node and the list of its files."""

    name: str
    dim: int
    script: Path
    where: Location | None = None
    dim_where: Location | None = None


@options
class WriterOptions:
    """Everything that a recipe says to the writer."""

    outputs: tuple[Output, ...] = attrs.field()
    where: Location | None = None


class HTKMLFWriter(DataWriter):
    """Writes big-endian files of kind USER with a frame of 10 ms, in the order of the list of files."""

    options: ClassVar[type] = WriterOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: WriterOptions, context: WriterContext) -> None:
        super().__init__(options, context)
        self._files: dict[str, list[str]] = {}
        self._done = 0
        names = {name.lower(): name for name in context.outputs}
        errors: list[CntkError] = []
        for output in options.outputs:
            name = names.get(output.name.lower())
            if name is None:
                text = f"HTKMLFWriter: the action writes no node '{output.name}'{did_you_mean(output.name, names)}"
                hint = f"It writes: {', '.join(context.outputs)}; outputNodeNames of the section says which."
                errors.append(ConfigError(text, where=output.where, hint=hint))
                continue
            if context.outputs[name] != output.dim:
                text = f"the node '{name}' has {context.outputs[name]} values, not dim={output.dim}"
                hint = f"Set dim={context.outputs[name]}."
                errors.append(ConfigError(text, where=output.dim_where, hint=hint))
            lines = collect(lambda output=output: _read_list(output), errors)
            self._files[name] = lines or []
            for path in self._files[name]:
                collect(lambda path=path, place=output.where: ask_to_write(path, where=place), errors)
        errors += _missing(context, options, self._files)
        raise_problems(errors)

    @classmethod
    def configure(cls, block: Config, what: str) -> WriterOptions:
        """Read the writer's block and a sub-block for each of its ``outputNodeNames``. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.strings("outputNodeNames")
        collect(lambda: block.bind(NoOptions, ignore=("outputNodeNames", *names), what=what), errors)
        outputs = [collect(lambda name=name: _read_output(block, name, what), errors) for name in names]
        raise_problems(errors)
        return WriterOptions(outputs=tuple(outputs), where=block.where)

    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next utterances: a file for each utterance and output."""
        count = 0
        for name, files in self._files.items():
            found = outputs[name]
            count = len(found)
            if self._done + count > len(files):
                key = found[len(files) - self._done].key
                raise DataError(
                    f"HTKMLFWriter: utterance {len(files) + 1} ('{key}') has no file in the list of '{name}', "
                    f"which has {len(files)}",
                    where=self.settings.where,
                    hint="The list needs one file for each utterance that is read.",
                )
            for path, sequence in zip(files[self._done :], found, strict=False):
                self._write_one(Path(path), sequence)
        self._done += count

    def _write_one(self, path: Path, sequence: SequenceOutput) -> None:
        trace = self.context.trace
        values = sequence.values
        assert isinstance(values, np.ndarray), "the action write gives dense values"
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad and trace is not None:
            trace(f"WARNING: HTKMLFWriter: {bad} values of '{path}' are not finite ({len(values)} frames)")
        try:
            write_features(path, values)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(f"'{path}' cannot be written: {reason}", where=self.settings.where) from None
        if trace is not None:
            trace(f"evaluate: writing {len(values)} frames of {path}")


def _read_output(block: Config, name: str, what: str) -> Output:
    section = block.section(name)
    keys = section.bind(OutputKeys, ignore=("type",), what=f"output '{name}' of {what}")
    check_type(section, "type", "real")
    where = section.location("scpFile" if section.own("scpFile") is not None else "file")
    return Output(name=name, dim=keys.dim, script=keys.scp_file, where=where, dim_where=section.location("dim"))


def _read_list(output: Output) -> list[str]:
    return [line for _, line in read_lines(output.script, output.where, "list of files to write")]


def _missing(context: WriterContext, options: WriterOptions, files: Mapping[str, list[str]]) -> list[CntkError]:
    """Return what is wrong between the outputs."""
    errors: list[CntkError] = []
    if not options.outputs:
        hint = "outputNodeNames=z ; z=[ dim=... ; scpFile=... ]"
        errors.append(ConfigError("HTKMLFWriter has no outputNodeNames", where=options.where, hint=hint))
    counts = {name: len(lines) for name, lines in files.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        text = f"HTKMLFWriter: the lists of files have different lengths: {shown}"
        errors.append(DataError(text, where=options.where, hint="Each has one file for each utterance."))
    return errors
