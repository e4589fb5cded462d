"""Record what the original computes of the cases in ``tests/original``: ``python tools/record_original.py PYTHON``.

PYTHON is an interpreter that has CNTK 2.7 (``import cntk``), as published: Python 3.6, on the processor. It is
third-party software and no part of this project; its results serve as reference values, and nothing else of it is kept.

For each case of an operation the sum of the value's elements, each times a weight, and the same sum of the gradient by
each input, with those weights as the gradient that comes in: a number for an array, which no wrong array has but by
chance. They are written to ``tests/original/recorded.npz``, in single and in double precision; those of networks that
see sequences and batches, with numbers of elements, to ``tests/original/networks.npz``. What the original does not
compute is printed and left out; tests compare what is there, and say how many operations that has to be.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "original"
RECORDED = CASES / "recorded.npz"
NETWORKS = CASES / "networks.npz"

PROGRAM = '''
import json, sys
import numpy as np
import cntk as C

def reduced(function):
    return lambda s, x: function(x, axis=s["axis"])

def pooled(kind):
    return lambda s, x: C.pooling(x, kind, s["window"], s["strides"], auto_padding=[s["pad"], s["pad"]])

FUNCTIONS = {
    "Abs": C.abs, "Acos": C.acos, "Asin": C.asin, "Asinh": C.asinh, "Atan": C.atan, "Atanh": C.atanh,
    "Cosh": C.cosh, "Cosine": C.cos, "Exp": C.exp, "Floor": C.floor, "Log": C.log, "Negate": C.negate,
    "Reciprocal": C.reciprocal, "RectifiedLinear": C.relu, "Sigmoid": C.sigmoid, "Sin": C.sin, "Sinh": C.sinh,
    "SoftPlus": C.softplus, "SoftSign": C.softsign, "Sqrt": C.sqrt, "StraightThrough": C.straight_through_impl,
    "Tan": C.tan, "Tanh": C.tanh, "Plus": C.plus, "Minus": C.minus, "ElementTimes": C.element_times,
    "LogPlus": C.log_add_exp, "Pow": C.pow, "Equal": C.equal, "NotEqual": C.not_equal, "Less": C.less,
    "LessEqual": C.less_equal, "Greater": C.greater, "GreaterEqual": C.greater_equal, "If": C.element_select,
    "PReLU": C.param_relu, "Softmax": C.softmax, "LogSoftmax": C.log_softmax, "Hardmax": C.hardmax,
    "ConstantOp": C.zeros_like, "CosDistance": C.cosine_distance, "Squeeze": C.squeeze,
}
FUNCTIONS = {name: (lambda s, *x, f=f: f(*x)) for name, f in FUNCTIONS.items()}
FUNCTIONS.update({
    "Clip": lambda s, low, high, x: C.clip(x, low, high),
    "Times": lambda s, w, x: C.times(x, w),
    "ExponentialLinearUnit": lambda s, x: C.elu(x, alpha=s["alpha"]),
    "HardSigmoid": lambda s, x: C.hard_sigmoid(x, s["alpha"], s["beta"]),
    "LeakyReLU": lambda s, x: C.leaky_relu(x, s["alpha"]),
    "SELU": lambda s, x: C.selu(x, s["scale"], s["alpha"]),
    "ReduceElements Sum": reduced(C.reduce_sum), "ReduceElements Mean": reduced(C.reduce_mean),
    "ReduceElements Max": reduced(C.reduce_max), "ReduceElements Min": reduced(C.reduce_min),
    "ReduceElements LogSum": reduced(C.reduce_log_sum_exp), "ReduceElements Prod": reduced(C.reduce_prod),
    "ReduceElements Argmax": reduced(C.argmax),
    "Convolution": lambda s, w, x: C.convolution(
        w, x, strides=s["strides"], auto_padding=s["auto_padding"], groups=s["groups"]),
    "Convolution transposed": lambda s, w, x: C.convolution_transpose(
        w, x, strides=s["strides"], auto_padding=s["auto_padding"]),
    "Pooling max": pooled(C.MAX_POOLING), "Pooling average": pooled(C.AVG_POOLING),
    "LocalResponseNormalization": lambda s, x: C.local_response_normalization(x, s["radius"], 2.0, 0.5, 0.75),
    "Pad": lambda s, x: C.pad(x, s["pattern"], s["mode"], s["value"]),
    "TopK": lambda s, x: C.top_k(x, s["k"]),
    "Slice": lambda s, x: C.slice(x, s["axis"], s["begin"], s["end"]),
    "RowStack": lambda s, *x: C.splice(*x, axis=s["axis"]),
    "ExpandDims": lambda s, x: C.expand_dims(x, 0),
    "DepthToSpace": lambda s, x: C.depth_to_space(x, s["block"]),
    "SpaceToDepth": lambda s, x: C.space_to_depth(x, s["block"]),
    "TransposeDimensions": lambda s, x: C.transpose(x, (1, 0)),
})

def computed(case, arrays, number, dtype):
    """The sums of one case; NaN where no gradient is wanted."""
    count = len(case["framed"])
    values = [arrays["%d x%d" % (number, k)].astype(dtype) for k in range(count)]
    weights = [arrays["%d w%d" % (number, k)] for k in range(count + 1)]
    operands, given = [], {}
    for value, framed in zip(values, case["framed"]):
        if framed:
            operands.append(C.input_variable(value.shape[1:], dtype=dtype, needs_gradient=True))
            given[operands[-1]] = value
        else:
            operands.append(C.parameter(init=value, dtype=dtype))
    made = FUNCTIONS[case["name"]](case["settings"], *operands)
    out = made.outputs[0]
    wanted = [operand for operand, want in zip(operands, case["wanted"]) if want]
    found = [float("nan")] * (count + 1)
    state, results = made.forward(given, [out], set([out]) if wanted else None)
    (result,) = results.values()
    result = np.asarray(result, np.float64)
    assert result.size == weights[0].size, (result.shape, weights[0].shape)
    found[0] = float(np.sum(result.ravel() * weights[0].ravel()))
    if wanted:
        seed = weights[0].reshape(result.shape).astype(dtype)
        gradients = made.backward(state, {out: seed}, set(wanted))
        for k, operand in enumerate(operands):
            if operand in gradients:
                gradient = np.asarray(gradients[operand], np.float64)
                assert gradient.size == weights[k + 1].size, (gradient.shape, weights[k + 1].shape)
                found[k + 1] = float(np.sum(gradient.ravel() * weights[k + 1].ravel()))
    return found

def main():
    C.device.try_set_default_device(C.cpu())
    arrays = np.load(sys.argv[1])
    with open(sys.argv[2]) as file:
        cases = json.load(file)
    rows, left = [], {}
    for precision, dtype in (("float32", np.float32), ("float64", np.float64)):
        for number, case in enumerate(cases):
            try:
                rows.append([case["name"], precision, computed(case, arrays, number, dtype)])
            except Exception as error:
                left.setdefault("%s in %s" % (case["name"], precision), str(error).strip().splitlines()[:1])
    with open(sys.argv[3], "w") as file:
        json.dump([rows, left], file)

main()
'''
"""What that interpreter runs."""


def record_operations(python: str) -> None:
    """Have the cases of operations computed, and write what comes out."""
    known: Any = importlib.import_module("original_cases")  # a module of tests, which have no types
    described: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for name in known.MAKERS:
        for case in known.cases(name):
            number = len(described)
            described.append(
                {"name": name, "framed": case.framed, "wanted": case.wanted, "settings": dict(case.settings)}
            )
            arrays |= {f"{number} x{index}": value for index, value in enumerate(case.inputs)}
            arrays |= {f"{number} w{index}": value for index, value in enumerate(case.weights)}
    with tempfile.TemporaryDirectory() as folder:
        given, spec, found = (Path(folder) / name for name in ("cases.npz", "cases.json", "found.json"))
        np.savez(given, **arrays)
        spec.write_text(json.dumps(described), encoding="utf-8")
        subprocess.run([python, "-c", PROGRAM, str(given), str(spec), str(found)], check=True)
        rows, left = json.loads(found.read_text(encoding="utf-8"))
    for what, why in left.items():
        print(f"left out: {what}: {' '.join(why)}")
    recorded: dict[str, list[list[float]]] = {}
    for name, precision, sums in rows:
        recorded.setdefault(f"{name}/{precision}", []).append(sums)
    whole = {key: np.array(sums) for key, sums in recorded.items() if key.replace("/", " in ") not in left}
    _write(RECORDED, whole)


def _plain(value: Any) -> Any:
    """What JSON can hold of a value of NumPy's."""
    return value.tolist() if isinstance(value, np.ndarray) else int(value)


def record_networks(python: str, names: Sequence[str]) -> None:
    """Have networks computed, each name in a process of its own, because the original may crash."""
    inputs: Any = importlib.import_module("network_inputs")
    known: Any = importlib.import_module("network_cases")
    recorded: dict[str, Any] = dict(np.load(NETWORKS)) if names and NETWORKS.exists() else {}
    program = Path(__file__).with_name("original_networks.py")
    for name in names or known.MAKERS:
        described = [attrs.asdict(case) for case in known.network_cases(name)]
        with tempfile.TemporaryDirectory() as folder:
            spec, found = Path(folder) / "cases.json", Path(folder) / "found.jsonl"
            spec.write_text(json.dumps([inputs.POOL, described], default=_plain), encoding="utf-8")
            silent = subprocess.DEVNULL
            subprocess.run([python, str(program), str(spec), str(found)], stdout=silent, stderr=silent, check=False)
            rows = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
        for precision in ("float32", "float64"):
            sums = [row[1] for row in rows if row[0] == precision and row[1] is not None]
            if len(sums) == known.COUNT:
                recorded[f"{name}/{precision}"] = np.array(sums)
            else:
                why = next((row[2] for row in rows if row[2]), "the original has crashed")
                print(f"left out: {name} in {precision}: {known.COUNT - len(sums)} cases: {why}")
    _write(NETWORKS, {key: recorded[key] for key in sorted(recorded) if key.partition("/")[0] in known.MAKERS})


def _write(path: Path, recorded: dict[str, Any]) -> None:
    np.savez_compressed(path, **recorded)
    print(f"{path.name}: {len(recorded)} recorded, {path.stat().st_size} bytes")


def main() -> None:
    """Have all cases computed, or those of some networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="an interpreter that has CNTK 2.7")
    parser.add_argument("names", nargs="*", help="of networks that are recorded anew, and nothing else")
    options = parser.parse_args()
    sys.path.insert(0, str(CASES))
    if not options.names:
        record_operations(options.python)
    record_networks(options.python, options.names)


if __name__ == "__main__":
    main()
