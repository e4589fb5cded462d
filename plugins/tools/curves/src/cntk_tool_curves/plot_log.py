"""``cntk plot-log``: the learning curves of one or several runs as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cntk_core.api import ConfigError, MissingPluginError, UsageError, did_you_mean
from cntk_tool_curves.curves import Curves
from cntk_tool_curves.draw import criteria_of, draw_curves
from cntk_tool_curves.read_log import read_log

FORMATS = (".svg", ".png", ".pdf")


def plot_log(
    logs: Sequence[str],
    *,
    output: str,
    criteria: Sequence[str] = (),
    section: str = "",
    logarithmic: bool = False,
    minibatches: bool = False,
) -> int:
    """Draw the trainings of logs into a file.

    Args:
        logs: JSON logs, or text logs of ours or of the original; ``NAME=FILE`` gives the run a name.
        output: the file; its suffix says the format.
        criteria: which criteria; by default all.
        section: only trainings of this command.
        logarithmic: the criteria on a logarithmic scale.
        minibatches: also what was shown within the epochs.

    Raises:
        CntkError: a log cannot be read or tells of no training, or the file cannot be written.
    """
    check_drawable(output, "cntk plot-log")
    runs = _runs(logs, section)
    names = plot_curves(runs, output, criteria=criteria, logarithmic=logarithmic, minibatches=minibatches)
    for label, curves in runs.items():
        print(f"{label}: {len(curves.epochs)} epochs{''.join(_at_the_end(curves, names))}")
    print(output)
    return 0


def plot_curves(
    runs: Mapping[str, Curves],
    output: str,
    *,
    criteria: Sequence[str] = (),
    logarithmic: bool = False,
    minibatches: bool = False,
) -> list[str]:
    """Draw curves into a file, whose folder is made, and return which criteria were drawn.

    Args:
        runs: the curves by the name that the legend shows.
        output, criteria, logarithmic, minibatches: as of :func:`plot_log`.

    Raises:
        UsageError: no run has such a criterion.
        ConfigError: the file cannot be written.
    """
    names, target = _chosen(criteria, criteria_of(runs)), Path(output)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draw_curves(runs, names, target, logarithmic=logarithmic, minibatches=minibatches)
    except OSError as error:
        raise ConfigError(f"the picture '{output}' cannot be written: {error.strerror}") from None
    return names


def check_drawable(output: str, command: str) -> None:
    """Make sure that a picture can be drawn, before anything takes time.

    Args:
        output: the file.
        command: what draws, for the message.

    Raises:
        UsageError: its suffix names no format.
        MissingPluginError: matplotlib is not installed.
    """
    from importlib.util import find_spec

    if Path(output).suffix.lower() not in FORMATS:
        raise UsageError(
            f"'{output}' cannot be drawn: the suffix of the file says what is written", hint=", ".join(FORMATS)
        )
    if find_spec("matplotlib") is None:
        raise MissingPluginError(f"{command} needs matplotlib", hint='pip install "cntk-core[plot]"')


def _runs(logs: Sequence[str], section: str) -> dict[str, Curves]:
    """Return the trainings by the shortest names that tell them apart."""
    read = [(name, path, read_log(path)) for name, path in map(_named, logs)]
    commands = [curves.name for _, _, trainings in read for curves in trainings]
    if section and not any(command.lower() == section.lower() for command in commands):
        raise UsageError(
            f"no log tells of a training '{section}'{did_you_mean(section, commands)}",
            hint=f"Trainings: {', '.join(dict.fromkeys(commands))}",
        )
    runs: dict[str, Curves] = {}
    labels = _labels([name or path for name, path, _ in read], [bool(name) for name, _, _ in read])
    for label, (_, _, trainings) in zip(labels, read, strict=True):
        kept = [curves for curves in trainings if not section or curves.name.lower() == section.lower()]
        for curves in kept:
            wanted = f"{label} {curves.name}" if len(kept) > 1 else label
            runs[_free(wanted, runs)] = curves
    return runs


def _named(log: str) -> tuple[str, str]:
    """Split ``NAME=FILE``; a file whose own name has an equals sign is a file."""
    name, equals, path = log.partition("=")
    return (name, path) if equals and not Path(log).exists() else ("", log)


def _labels(paths: Sequence[str], given: Sequence[bool]) -> list[str]:
    """Return for each file its name without the suffix, with its folder where that is not enough."""
    short = [path if own else Path(path).stem for path, own in zip(paths, given, strict=True)]
    return [
        label if own or short.count(label) == 1 else f"{Path(path).parent.name or '.'}/{label}"
        for label, path, own in zip(short, paths, given, strict=True)
    ]


def _free(label: str, taken: Mapping[str, Curves]) -> str:
    number, free = 2, label
    while free in taken:
        free, number = f"{label} ({number})", number + 1
    return free


def _chosen(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    by_name = {name.lower(): name for name in known}
    for name in wanted:
        if name.lower() not in by_name:
            raise UsageError(
                f"no log has a criterion '{name}'{did_you_mean(name, known)}", hint=f"Criteria: {', '.join(known)}"
            )
    return [by_name[name.lower()] for name in wanted] or list(known)


def _at_the_end(curves: Curves, names: Sequence[str]) -> Iterator[str]:
    if not curves.epochs:
        return
    last = curves.epochs[-1]
    for name in names:
        if name in last.criteria:
            held_out = f" (validation {last.validation[name]:.6g})" if name in last.validation else ""
            yield f", {name} = {last.criteria[name]:.6g}{held_out}"
