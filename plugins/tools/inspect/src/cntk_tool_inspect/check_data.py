"""``cntk check-data``: everything that is wrong with the data files of a recipe, without training anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cntk_core.api import CntkError, Config, ConfigError, show
from cntk_core.api.recipes import RecipeContext, open_recipe

_KEYS = ("reader", "cvReader")


def check_data(
    arguments: Sequence[str], *, section: str | None = None, plugin_files: Sequence[str] = (), most: int = 100
) -> int:
    """Print what is wrong with the data of each reader block; return 0 if nothing is, else 1.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: look at the blocks of this command section only.
        plugin_files: Python files with further readers.
        most: stop after this many lines for one reader.
    """
    context, sections = open_recipe(arguments, section, plugin_files)
    blocks = [(part, key) for part in sections for key in _KEYS if part.get(key) is not None]
    if not blocks:
        raise ConfigError("the recipe has no reader block to check", where=context.config.where)
    problems = sum(_check(context, part, key, most) for part, key in blocks)
    print("no problems found" if not problems else f"{problems} problems found" if problems > 1 else "1 problem found")
    return 1 if problems else 0


def _check(context: RecipeContext, section: Config, key: str, most: int) -> int:
    """Check one block and print what is found; return the number of problems."""
    title = f"{section.name}:{key}"
    try:
        reader = context.make_reader(section, key=key)
    except CntkError as error:
        print(f"{title}\n{error}")
        return 1
    try:
        shapes = ", ".join(f"{stream.name} {show(stream.shape)}" for stream in reader.streams)
        print(f"{title}: {shapes}")
        return _print_problems(reader.check(), most)
    finally:
        reader.close()


def _print_problems(problems: Iterator[CntkError], most: int) -> int:
    count = 0
    for error in problems:
        if count == most:
            print(f"and more; only the first {most} are shown")
            break
        count += 1
        print(error)
    return count
