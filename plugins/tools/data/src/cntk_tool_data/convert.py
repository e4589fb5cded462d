"""Makes the files of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cntk_core.api import MissingPluginError, UsageError
from cntk_core.api.recipes import PluginManager
from cntk_tool_data.files import Progress


def convert(
    name: str,
    source: str,
    target: str = ".",
    *,
    checksum: bool = True,
    only: str = "",
    plugin_files: Sequence[str] = (),
) -> int:
    """Write the files of a data set, for ours with the names that CNTK's own scripts gave them.

    Args:
        name: as a plugin offers it.
        source: the folder with what was downloaded.
        target: the folder of the new files; it is made.
        checksum: compare what was downloaded with the published checksums.
        only: a part of it, such as ``text`` or ``images``: not the others.
        plugin_files: Python files with further data sets.

    Raises:
        UsageError: there is no such data set or part, or the folder is none.
        PluginError: the data set's plugin is broken.
        DataError: files are missing, damaged, or not the published ones.
    """
    table = PluginManager(plugin_files).registry.datasets
    try:
        dataset = table.get(name)()
    except MissingPluginError as error:
        more = error.message.removeprefix(f"no data set named '{name}'")
        raise UsageError(
            f"there is no data set '{name}'{more}", hint=f"Data sets: {', '.join(table.names())}"
        ) from None
    if not Path(source).is_dir():
        raise UsageError(f"'{source}' is no folder", hint="Give the folder with what you downloaded: --from DIR")
    if only and only not in dataset.parts:
        hint = f"Parts: {', '.join(dataset.parts)}." if dataset.parts else "Leave out --only."
        raise UsageError(f"the data set '{name}' has no part '{only}'", hint=hint)
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    dataset.convert(Path(source), folder, checksum=checksum, only=only, progress=Progress())
    return 0
