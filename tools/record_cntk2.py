"""Record what the original computes of models that we wrote for it: ``python tools/record_cntk2.py PYTHON``.

PYTHON is an interpreter that has CNTK 2.7 (``import cntk``), as published: Python 3.6, on the processor. It is
third-party software and no part of this project; its results serve as reference values, and nothing else of it is kept.

Each of the original's models in ``plugins/models/cntk2/tests`` is read and written again by us; the original loads what
we wrote, evaluates it on the same inputs, and its results are compared with those that it had for its own file. The
largest difference, by the tolerance of that model (1 is as far as may be), and the SHA-256 of our file are written to
``recorded.json`` there, and for files of version 1, as far as that can say a model, to ``recorded-1.json``. Tests
compare what we write today with the digest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "plugins" / "models" / "cntk2" / "tests"

FORMATS = {"CNTK-2": "recorded.json", "CNTK-1": "recorded-1.json"}
"""Formats that are written, each with the file of its results."""

PROGRAM = """
import json, sys
import numpy as np
import scipy.sparse
import cntk as C

cases = json.load(open("cases.json"))
found = {}
for name in sorted(cases):
    case = cases[name]
    try:
        z = C.load_model(name + ".model")
        given = np.load(name + ".npz")
        data = {}
        for a in z.arguments:
            i = case["inputs"][a.name]
            kind = np.float64 if i["dtype"] == "float64" else np.float32
            if i["axes"] == "sequence":
                keys = [k for k in given.files if k.startswith("in/" + a.name + "/")]
                keys.sort(key=lambda k: int(k.rsplit("/", 1)[1]))
                data[a] = [given[k].astype(kind) for k in keys]
                if a.is_sparse:
                    data[a] = [scipy.sparse.csr_matrix(v) for v in data[a]]
            else:
                data[a] = given["in/" + a.name].astype(kind)
                if a.is_sparse:
                    data[a] = scipy.sparse.csr_matrix(data[a])
        values = z.eval(data) if len(z.outputs) > 1 else {z.output: z.eval(data)}
        for v, value in values.items():
            key = case["keys"].get(v.name) or case["keys"][v.owner.name]
            if isinstance(value, list):
                for n, one in enumerate(value):
                    found[name + "|out/%s/%d" % (key, n)] = np.asarray(one)
            else:
                found[name + "|out/" + key] = np.asarray(value)
    except Exception as error:
        print(name, "cannot be evaluated:", str(error).split(chr(10))[0], file=sys.stderr)
np.savez("found.npz", **found)
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("python", help="an interpreter that has CNTK 2.7")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(TESTS))
    import golden_files

    for form, target in FORMATS.items():
        _record(form, TESTS / target, options.python, golden_files)
    return 0


def _record(form: str, target: Path, python: str, golden_files: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digests = _write(form, folder, golden_files)
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        subprocess.run([python, "program.py"], cwd=folder, check=True)
        with np.load(folder / "found.npz") as arrays:
            found = {key: arrays[key] for key in arrays.files}
    recorded: dict[str, dict[str, Any]] = {
        name: {"sha256": digest, "difference": None} for name, digest in sorted(digests.items())
    }
    for name in recorded:
        tolerance = golden_files.index()[name]["tolerance"] if golden_files.index()[name]["compare"] else None
        if tolerance is not None:
            recorded[name]["difference"] = _largest(golden_files.arrays(name, "out/"), found, name, tolerance)
    target.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    compared = [entry["difference"] for entry in recorded.values() if entry["difference"] is not None]
    within = sum(one <= 1 for one in compared)
    print(f"{form}: {len(recorded)} models, {len(compared)} compared, {within} within the tolerance")


def _write(form: str, folder: Path, golden_files: Any) -> dict[str, str]:
    """Write all models that we can read, with their inputs; return the digests."""
    from cntk_model_cntk2.load import load_model
    from evaluate_model import keys_of

    from cntk_core.api import CntkError, core_ops
    from cntk_core.api.recipes import ModelFiles, PluginManager

    files = ModelFiles(PluginManager(load_hooks=False).registry)

    digests, cases = {}, {}
    for name, case in golden_files.index().items():
        path = golden_files.write(name, folder)
        try:
            model = load_model(path, core_ops().find)
            files.save(model.network, path, form)
        except CntkError as error:
            print(name, error.message)
            path.unlink()
            continue
        digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if case["compare"]:
            np.savez(folder / f"{name}.npz", **golden_files.arrays(name, "in/"))
            keys = {result.node.name: key for key, result in zip(keys_of(model), model.results, strict=True)}
            cases[name] = {"inputs": {each["name"]: each for each in case["inputs"]}, "keys": keys}
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    return digests


def _largest(expected: dict[str, Any], found: dict[str, Any], name: str, tolerance: dict[str, float]) -> float | None:
    largest = 0.0
    for key, want in expected.items():
        have = found.get(f"{name}|{key}")
        if have is None or have.size != want.size:
            return None
        limit = tolerance["absolute"] + tolerance["relative"] * np.abs(want)
        largest = max(largest, float(np.max(np.abs(have.reshape(want.shape) - want) / limit, initial=0.0)))
    return round(largest, 6)


if __name__ == "__main__":
    sys.exit(main())
