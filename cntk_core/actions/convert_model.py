"""``cntk convert``: a model of the original, or one of ours, as a model file of this program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cntk_core.actions.show_model import load_any_model
from cntk_core.errors import DataError, UsageError
from cntk_core.network.model_file import save_model

PRECISIONS = {"float": "float32", "double": "float64"}
"""What ``--precision`` accepts, and what it means."""


def convert_model(source: str, output: str, *, precision: str = "", plugin_files: Sequence[str] = ()) -> int:
    """Read a model, the original's or ours, and write it in our format.

    Args:
        source: the model.
        output: the new file; it is replaced if it is there.
        precision: ``float`` or ``double``; by default that of the model.
        plugin_files: Python files with further operations.

    Raises:
        CntkError: the model cannot be read, or the file not be written.
    """
    target = Path(output)
    if target.exists() and Path(source).exists() and target.samefile(source):
        raise UsageError(f"'{output}' is the model that is read", hint="Give the new one another name: it may be lost.")
    network = load_any_model(source, plugin_files, PRECISIONS.get(precision))
    try:
        save_model(network, target)
    except OSError as error:
        raise DataError(f"the model '{output}' cannot be written: {error.strerror}") from None
    weights = sum(parameter.value.size for parameter in network.parameters if parameter.value is not None)
    print(f"{output}: {len(network)} nodes, {weights} numbers in {len(network.parameters)} parameters")
    return 0
