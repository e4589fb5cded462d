"""Evaluate a model file of CNTK 2 on arrays, and write what its outputs are.

    python tools/evaluate_model.py MODEL NPZ_IN NPZ_OUT [ENGINE]

``NPZ_IN`` has for each input an array ``in/NAME``: ``(samples, *shape)``, or of the input's shape if it has no dynamic
axis; for sequences ``in/NAME/0``, ``in/NAME/1``, ... each ``(frames, *shape)``. ``NPZ_OUT`` gets the outputs of the
function that was saved in the same way, as ``out/KEY``: by name, or by the uid of the variable where a name is missing
or not unique. The engine is ``cpu`` if none is named.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cntk_model_cntk2.load import Cntk2Model, load_model

from cntk_core.api import CntkError, Input
from cntk_core.model import Model
from cntk_core.plugins.manager import PluginManager


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    model, given, wanted = map(Path, arguments[:3])
    try:
        with np.load(given) as arrays:
            found = evaluate(model, dict(arrays), *arguments[3:])
    except (CntkError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    np.savez(wanted, **found)
    return 0


def evaluate(path: Path, arrays: Mapping[str, Any], engine: str = "cpu") -> dict[str, Any]:
    """Return the values of all outputs, named as in a file. Outputs that cannot be computed are errors."""
    plugins = PluginManager()
    loaded = load_model(path, plugins.registry.ops.find)
    model = Model(loaded.network, engine=engine, plugins=plugins)
    data = inputs_of(loaded, arrays, "in")
    values = model.evaluate(data, [result.node.name for result in loaded.results])
    found: dict[str, Any] = {}
    for key, result in zip(keys_of(loaded), loaded.results, strict=True):
        value = values[result.node.name]
        if result.axes == "sequence":
            whole = value if isinstance(value, list) else [value]
            found |= {f"out/{key}/{index}": shaped(one, result.shape) for index, one in enumerate(whole)}
        elif result.axes == "batch":
            rows = np.concatenate(value) if isinstance(value, list) else np.asarray(value)
            found[f"out/{key}"] = shaped(rows, result.shape)
        else:
            found[f"out/{key}"] = np.asarray(value).reshape(result.shape)
    return found


def shaped(rows: Any, shape: Sequence[int]) -> Any:
    """Return rows of samples of a shape; free dimensions are those that the samples have."""
    return rows if any(size < 0 for size in shape) else rows.reshape(len(rows), *shape)


def keys_of(loaded: Cntk2Model) -> list[str]:
    """Return the key of each output: its name, or its uid."""
    counts = Counter(result.name for result in loaded.results)
    return [result.name if result.name and counts[result.name] == 1 else result.uid for result in loaded.results]


def inputs_of(loaded: Cntk2Model, arrays: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the arrays of a part of a file for the inputs of a network, sequences as lists."""
    data: dict[str, Any] = {}
    for node in (node for node in loaded.network if isinstance(node, Input)):
        one = f"{part}/{node.name}"
        if one in arrays:
            data[node.name] = arrays[one]
            continue
        several = [name for name in arrays if name.startswith(f"{one}/") and name[len(one) + 1 :].isdecimal()]
        if several:
            several.sort(key=lambda name: int(name[len(one) + 1 :]))
            data[node.name] = [arrays[name] for name in several]
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
