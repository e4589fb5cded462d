"""Pieces of programs and what the original 2.7 answers to them; run by its Python, it writes data/snippets.json anew.

    python snippets.py

Each piece begins with the variables of ``BEFORE``; its last line is an expression, of which it is said what it is. The
file has the pieces, too: a new one is added there with any answer.
"""

import json
import os
import re
import sys
import warnings

import cntk as C
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = os.path.join(HERE, "data", "snippets.json")

BEFORE = """
x = C.input_variable(3, name="x")
y = C.input_variable(3, name="y")
m = C.input_variable((2, 3), name="m")
t = C.input_variable((2, 3, 4), name="t")
s = C.sequence.input_variable(3, name="s")
u = C.sequence.input_variable((2, 3), name="u")
w = C.sequence.input_variable(3, sequence_axis=C.Axis("other"), name="w")
im = C.input_variable((3, 8, 6), name="im")
c = C.constant([1.0, 2.0, 3.0], name="c")
p = C.parameter((3, 4), init=1, name="p")
d = C.input_variable(3, dtype=np.float64, name="d")
k = C.placeholder(name="k")
n = C.input_variable(3, dynamic_axes=[], name="n")
sp = C.input_variable(5, is_sparse=True, name="sp")
f = C.input_variable((C.FreeDimension, 3), name="f")
"""


def answer(piece):
    """Run a piece and say what its last line gives."""
    names = {"C": C, "np": np}
    exec(BEFORE, names)
    *first, last = piece.split("\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join(first), names)
            return told(eval(last, names))
    except Exception as error:
        kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")
        return "! " + {"RuntimeError": "ValueError"}.get(kind, kind)


def told(value):
    """Say what a value is."""
    if isinstance(value, C.Function):
        return {
            "is": _words(str(value)),
            "outputs": [variable(each) for each in value.outputs],
            "reads": [each.name for each in value.arguments],
            "learns": sorted(str(each.shape) for each in value.parameters),
        }
    if isinstance(value, (C.variables.Variable, C.variables.Parameter, C.variables.Constant)):
        return variable(value)
    if isinstance(value, C.Axis):
        return "axis " + str(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), told(value.reshape(-1).tolist())]
    if isinstance(value, dict):
        return sorted(([str(told(key)), told(each)] for key, each in value.items()), key=str)
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.5g}")
    if isinstance(value, (bool, int)) or value is None:
        return value
    if isinstance(value, np.integer):
        return int(value)
    return _words(str(value))


def variable(one):
    """Say what a variable is."""
    flags = " sparse" * bool(one.is_sparse) + " learned" * bool(one.needs_gradient)
    axes = ", ".join(axis.name for axis in one.dynamic_axes)
    return _words(f"{one.name} {tuple(one.shape)} [{axes}]{flags}") + f" {np.dtype(one.dtype).name}"


def _words(text):
    """A text without the numbers of uids."""
    text = text.replace("np.float]", "float]").replace("np.float", "float")
    return re.sub(r"(?<=[A-Za-z_])\d+(?=\b|_)", "", text)


def main():
    """Write the answers."""
    with open(ANSWERS) as file:
        found = {piece: answer(piece) for piece in json.load(file)}
    with open(ANSWERS, "w") as file:
        rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
        file.write("{\n" + ",\n".join(rows) + "\n}\n")
    sys.stdout.write(f"{len(found)} answers\n")


if __name__ == "__main__":
    main()
