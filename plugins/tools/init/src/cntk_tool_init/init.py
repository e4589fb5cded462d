"""Look at data, ask what is not clear, and write a recipe that trains on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import attrs

from cntk_core.api import CntkError, DataError, UsageError, did_you_mean
from cntk_tool_init.asking import ask, can_ask, choose
from cntk_tool_init.found import TASKS, Data, Prepared, Wishes
from cntk_tool_init.networks import choose as choose_network
from cntk_tool_init.recipe import CHECK, README, RECIPE, check_text, commands, readme_text, recipe_text
from cntk_tool_init.sniff import look


@attrs.frozen
class Request:
    """What the command line says.

    Attributes:
        folder: where the files go; empty: it is asked for, or is ``recipe``.
        data: files or a folder; if there are none they are asked for.
        task: what is learned; empty: it is asked for, or is what the data look like.
        wishes: of the data.
        force: replace files that are there.
        yes: ask nothing.
        only_look: write nothing.
    """

    folder: str
    data: Sequence[str]
    task: str
    wishes: Wishes
    force: bool = False
    yes: bool = False
    only_look: bool = False


def run_init(request: Request) -> int:
    """Do it.

    Raises:
        CntkError: the data are nothing that is known, files are there already, or something has to be said.
    """
    asking = can_ask() and not request.yes
    if request.task and request.task not in TASKS:
        hint = f"A task is one of {', '.join(TASKS)}."
        raise UsageError(f"there is no task '{request.task}'{did_you_mean(request.task, TASKS)}", hint=hint)
    paths = _paths(request, asking=asking)
    wishes = request.wishes
    data = look(paths, wishes)
    _check_wishes(data, wishes)
    _tell(data)
    if request.only_look:
        return 0
    if asking and not wishes.target and len(data.targets) > 1:
        target = choose("\nWhat is to be learned?", data.targets)
        if target != data.targets[0]:
            wishes = attrs.evolve(wishes, target=target)
            data = look(paths, wishes)
    task = _task(request, data, asking=asking)
    folder = Path(request.folder or (ask("\nWhere do the files go?", "recipe") if asking else "recipe"))
    _write(folder, paths, data, task, wishes, force=request.force)
    return 0


def _paths(request: Request, *, asking: bool) -> list[Path]:
    said = list(request.data)
    if not said and asking:
        said = [ask("Which file or folder has the data? (several with blanks between)")]
        said = said if Path(said[0]).exists() else said[0].split()
    if not said:
        raise UsageError("there are no data", hint="Say where they are: cntk init FOLDER --data FILE")
    return [Path(one).expanduser() for one in said]


def _check_wishes(data: Data, wishes: Wishes) -> None:
    """Raise a UsageError for what is said of data to which it says nothing."""
    if wishes.held_out is not None and not data.takes_second:
        raise UsageError(
            f"--held-out: of {data.title} only a share can be held out, not '{wishes.held_out}'",
            hint="Put the data together, and say how much is held out: --held-out 0.2",
        )
    if wishes.target and not data.targets:
        raise UsageError(f"--target: of {data.title} there is nothing to choose, so not '{wishes.target}'")


def _tell(data: Data) -> None:
    print(f"{data.title}:")
    for line in data.seen():
        print(f"  {line}")
    for line in data.odd:
        print(f"  note: {line}")


def _task(request: Request, data: Data, *, asking: bool) -> str:
    possible = list(data.tasks)
    if request.task:
        if request.task not in possible:
            hint = f"They are for {' or '.join(possible)}."
            raise UsageError(f"these data are not for the task '{request.task}': {data.title}", hint=hint)
        return request.task
    if asking and len(possible) > 1:
        return choose("\nWhat is the recipe for?", possible, [TASKS[one] for one in possible])
    return possible[0]


def _write(folder: Path, paths: Sequence[Path], data: Data, task: str, wishes: Wishes, *, force: bool) -> None:
    names = [RECIPE, CHECK, README, *data.writes]
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        raise UsageError(
            f"'{folder}' has {', '.join(there)} already",
            hint="Give another folder, or replace them with --force.",
        )
    own = [
        path for path in (*paths, *([wishes.held_out] if wishes.held_out else [])) if _is_one_of(path, folder, names)
    ]
    if own:
        raise UsageError(f"'{own[0]}' would be overwritten by a part of itself", hint="Give another folder.")
    before = {name for name in names if (folder / name).exists()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        prepared = data.prepare(folder, task)
        _check_size(prepared, paths)
        choice = choose_network(prepared, task)
        texts = {
            RECIPE: recipe_text(data.title, task, prepared, choice),
            CHECK: check_text(),
            README: readme_text(paths, task, data, prepared, choice),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except CntkError:
        _remove(folder, [*names, "vocabulary.cntk"], before)
        raise
    except OSError as error:
        raise UsageError(
            f"'{error.filename or folder}' cannot be written: {error.strerror}", hint="Give another folder."
        ) from None
    print(f"\nwritten to {folder}: {', '.join([*texts, *(name for name, _ in prepared.files)])}")
    print("\nWhat to try next:")
    for command in (f"cd {folder}", *commands(prepared)):
        print(f"  {command}")


def _remove(folder: Path, names: Sequence[str], before: Collection[str]) -> None:
    """Remove what was begun, so that the next try is not told that it is there already."""
    for name in names:
        if name not in before:
            (folder / name).unlink(missing_ok=True)


def _is_one_of(path: Path, folder: Path, names: Sequence[str]) -> bool:
    return path.is_file() and any((folder / name).exists() and path.samefile(folder / name) for name in names)


def _check_size(data: Prepared, paths: Sequence[Path]) -> None:
    """Raise a DataError if there is nothing to tell apart."""
    if data.y.sparse and data.y.dim < 2:
        raise DataError(f"'{paths[0]}' has one class, so there is nothing to learn")
