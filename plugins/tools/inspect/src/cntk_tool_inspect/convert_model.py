"""``cntk convert``: a model of any format as a model file of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cntk_core.api import DataError, UsageError
from cntk_tool_inspect.show_model import load_any_model, model_files

PRECISIONS = {"float": "float32", "double": "float64"}
"""What ``--precision`` accepts, and what it means."""


def convert_model(
    source: str,
    output: str,
    *,
    precision: str = "",
    form: str = "",
    settings: Mapping[str, str] | None = None,
    check: bool = False,
    plugin_files: Sequence[str] = (),
) -> int:
    """Read a model and write it in the format that is asked for.

    Args:
        source: the model.
        output: the new file; it is replaced if it is there.
        precision: ``float`` or ``double``; by default that of the model.
        form: name of a format; by default that which the suffix of the file says, else the program's own.
        settings: of the format.
        check: say how well another program does with the file.
        plugin_files: Python files with further operations and formats.

    Raises:
        CntkError: the model cannot be read, or the file not be written or not be checked.
    """
    target = Path(output)
    if target.exists() and Path(source).exists() and target.samefile(source):
        raise UsageError(f"'{output}' is the model that is read", hint="Give the new one another name: it may be lost.")
    network = load_any_model(source, plugin_files, PRECISIONS.get(precision))
    writer = model_files(plugin_files).writer(target, form)
    writer.take_settings(settings or {})
    try:
        writer.save(network, target)
    except OSError as error:
        raise DataError(f"the model '{output}' cannot be written: {error.strerror}") from None
    weights = sum(parameter.value.size for parameter in network.parameters if parameter.value is not None)
    print(f"{output}: {len(network)} nodes, {weights} numbers in {len(network.parameters)} parameters")
    if check:
        print(writer.check(network, target))
    return 0
