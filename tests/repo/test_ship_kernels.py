"""With shipped kernels the first run of a common network on a machine compiles nothing."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "ship_kernels.py"

needs_llvm = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")

RUN = """
import json, runpy, sys
from pathlib import Path
from cntk_kit_engines import shipped_code
from cntk_kit_engines.code_generator import CodeGenerator, host_level
from cntk_kit_recipes.cli import main

shipped_code.FOLDER = Path(sys.argv[1])
compiled = []
compile = CodeGenerator.compile
CodeGenerator.compile = lambda self, text: compiled.append(text) or compile(self, text)
folder = Path("run")
folder.mkdir(exist_ok=True)
tool = runpy.run_path(sys.argv[2])
tool["write_data"](tool["NETWORKS"][sys.argv[3]], folder, 90, "dense")
status = main(sys.argv[4:])
print(json.dumps({"level": host_level(), "status": status, "compiled": len(compiled)}))
"""


def run(folder: Path, shipped: Path, width: int) -> dict[str, object]:
    arguments = [f"configFile={ROOT}/tools/common_networks.cntk", f"folder={folder}/run", "net=dense1", "shape=(40)"]
    arguments += ["dim=40", f"width={width}", "minibatchSize=30", "cpuKernels=compiled"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(shipped), str(TOOL), "dense1", *arguments],
        cwd=folder,
        env={**os.environ, "CNTK_CACHE": str(folder / "cache")},
        text=True,
        capture_output=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.thorough
@needs_llvm
def test_a_common_network_compiles_nothing(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    command = [sys.executable, str(TOOL), "--into", str(shipped), "--networks", "dense1"]
    subprocess.run(command, check=True, capture_output=True)
    files = sorted(shipped.iterdir())
    assert [path.stem for path in files] == ["aarch64", "x86-64-v3", "x86-64-v4"]
    assert all(path.stat().st_size < 1_000_000 for path in files)
    empty = tmp_path / "other"
    empty.mkdir()
    without = run(empty, empty, 96)
    assert without["status"] == 0
    assert without["compiled"] != 0
    found = run(tmp_path, shipped, 96)
    if found["level"] is None:
        pytest.skip("no level of this processor is shipped")
    assert found == {"level": found["level"], "status": 0, "compiled": 0}
    assert not (tmp_path / "cache" / "kernels").exists()


def wheel(folder: Path, *levels: str) -> Path:
    path = folder / "cntk_kit_engines-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for level in levels:
            archive.writestr(f"cntk_kit_engines/shipped/{level}.kernels", b"")
    return path


@needs_llvm
def test_a_wheel_without_kernels_is_no_release(tmp_path: Path) -> None:
    lacking = runpy.run_path(str(TOOL))["lacking"]
    assert lacking(tmp_path) == [f"{tmp_path}: no wheel of cntk-kit-engines"]
    path = wheel(tmp_path, "x86-64-v4", "aarch64")
    assert lacking(tmp_path) == [f"{path}: lacks cntk_kit_engines/shipped/x86-64-v3.kernels"]
    wheel(tmp_path, "x86-64-v3", "x86-64-v4", "aarch64")
    assert lacking(tmp_path) == []


def test_a_release_makes_kernels_first() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^dist: kernels .*\n(\t.*\n)*\t.*ship_kernels\.py --check dist$", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "kits/engines/pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["artifacts"] == ["src/cntk_kit_engines/shipped/*.kernels"]
