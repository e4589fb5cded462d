# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, RUF005, UP031
"""Loads model files and evaluates them on drawn data: run by ``tools/files_beside_original.py`` under two Pythons.

``python file_twin.py FOUND.json MODEL...`` writes for each file its arguments and the values of its outputs by name, or
what was refused. The same program runs with the original (Python 3.6) and with ``cntk-compat``.
"""

import json
import sys

import cntk as C
import numpy as np

LENGTHS = (3, 1, 4)


def drawn(rng, variable):
    shape = tuple(size if size > 0 else 3 for size in variable.shape)
    axes = len(variable.dynamic_axes)
    if axes == 2:
        return [rng.uniform(-1, 1, (length,) + shape).astype(variable.dtype) for length in LENGTHS]
    return rng.uniform(-1, 1, (len(LENGTHS),) * axes + shape).astype(variable.dtype)


def values(output, data):
    function = C.combine([output])
    found = function.eval({each: data[each.name] for each in function.arguments})
    return [np.asarray(each).ravel().tolist() for each in (found if isinstance(found, list) else [found])]


def look(path):
    function = C.load_model(path)
    rng = np.random.RandomState(7)
    arguments = sorted(function.arguments, key=lambda one: one.name)
    data = {one.name: drawn(rng, one) for one in arguments}
    found = {}
    for output in function.outputs:
        try:
            found[output.name] = values(output, data)
        except Exception as error:
            found[output.name] = "refused: %s" % str(error).split("\n")[0][:200]
    return {"arguments": [[one.name, list(one.shape), len(one.dynamic_axes)] for one in arguments], "outputs": found}


def main(file, paths):
    found = {}
    for path in paths:
        try:
            found[path] = look(path)
        except Exception as error:
            found[path] = "refused: %s" % str(error).split("\n")[0][:200]
        with open(file, "w") as out:  # after each, as one may crash
            json.dump(found, out)


if __name__ == "__main__":
    C.device.try_set_default_device(C.device.cpu())
    main(sys.argv[1], sys.argv[2:])
