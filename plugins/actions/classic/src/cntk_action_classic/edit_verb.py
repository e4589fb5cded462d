"""``cntk edit``: a script, or commands for one model, without a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cntk_action_classic.edit import run_script, script_builder
from cntk_core.api import CntkError, Config, DataError, Location, UsageError
from cntk_core.api.builders import COMMAND_LINE, Entry, SourceText, complete_network, parse_entries
from cntk_core.api.recipes import Log, RecipeContext

SCRIPT_SUFFIX = ".mel"
_BINARY = 16


def is_script(file: str) -> bool:
    """Tell whether a file is a script, not a recipe.

    Raises:
        UsageError: it is a model, and nothing says what is to be done with it.
    """
    if Path(file).suffix.lower() == SCRIPT_SUFFIX:
        return True
    try:
        with open(file, "rb") as opened:
            begin = opened.read(_BINARY)
    except (OSError, ValueError):
        return False
    if b"\0" in begin:
        raise UsageError(
            f"'{file}' is a model; say what is to be done with it",
            hint=f'cntk edit {file} -c "SetProperty(z, output, true)" -o edited.dnn',
        )
    return False


def edit_with_script(file: str, overrides: Sequence[str], *, plugin_files: Sequence[str] = ()) -> int:
    """Run a script file; ``key=value`` gives its ``$variables$`` and ``ndlMacros``.

    Raises:
        CntkError: the script is wrong, or one of its commands fails.
    """
    log = Log()
    context = _context(overrides, {"editPath": file}, log, plugin_files)
    run_script(context, context.config)
    return 0


def edit_model(
    model: str,
    overrides: Sequence[str],
    *,
    script: str | None = None,
    commands: Sequence[str] = (),
    output: str | None = None,
    plugin_files: Sequence[str] = (),
) -> int:
    """Load a model, run a script and commands on it as their default model, and save it.

    Args:
        model: the file; its precision is kept.
        overrides: ``key=value`` for the variables.
        script: a file with commands, which run first.
        commands: each one or several commands, separated by ``;``.
        output: where the default model is saved in the end; None saves nothing but what the commands save.
        plugin_files: Python files with further components.

    Raises:
        DataError, ModelFormatError: the model cannot be read, or the edited one cannot be written.
        CntkError: a command is wrong or fails; then nothing is saved as ``output``.
    """
    entries = {"editPath": script or "", "editCommands": "\n".join(commands)}
    log = Log()
    context = _context(overrides, {key: text for key, text in entries.items() if text}, log, plugin_files)
    if not Path(model).exists():
        raise DataError(f"the model '{model}' does not exist")
    if script or commands:
        script_builder(context, context.config)
    base = context.load_model(model, as_saved="precision" not in context.config)
    network = run_script(context, context.config, base) if script or commands else base
    if output is None:
        log.line("Give -o FILE to save the edited model.")
        return 0
    complete_network(network)
    context.save_model(network, output)
    log.line(f"Model with {len(network)} nodes saved as '{output}'.")
    return 0


def _context(overrides: Sequence[str], given: dict[str, str], log: Log, plugin_files: Sequence[str]) -> RecipeContext:
    """Return the context of a run whose configuration is the command line alone."""
    entries: dict[str, Entry] = {}
    for number, text in enumerate(overrides, start=1):
        place = Location(COMMAND_LINE, number, 1)
        try:
            entries |= parse_entries(SourceText(text, (0,), (place,)))
        except CntkError as error:
            error.where = error.where or place
            raise
    for key, text in given.items():
        source = SourceText.of(text, COMMAND_LINE)
        entries[key.lower()] = Entry(key, source.where, source)
    config = Config(entries, where=Location(COMMAND_LINE))
    config.check_variables()
    return RecipeContext.create(config, log, plugin_files=plugin_files)
