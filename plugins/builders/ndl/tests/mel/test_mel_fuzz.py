"""Any script gives models or typed errors with their places."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from mel_scripts import Disk, run_text

from cntk_testing.examples import examples

COMMANDS = [
    "CreateModel", "LoadModel", "LoadModelWithName", "SaveModel", "SaveDefaultModel", "SetDefaultModel", "UnloadModel",
    "DumpModel", "DumpNode", "Copy", "CopyNode", "CopySubTree", "CopyInputs", "SetInput", "SetInputs", "SetProperty",
    "SetPropertyForSubTree", "Remove", "Rename", "ReviseParameter", "LoadNDLSnippet",
]  # fmt: skip
WORDS = [
    "m", "n", "L1.*", "L2.*", "*.W", "*", "m.*", "n.L1.S", "ce", "err", "OL.T", "OL.P", "features", "labels", "x",
    "0", "1", "true", "false", "0.5", "copy=value", "copy=all", "format=cntk", "includeData=true", "output",
    "y.z", "criterion", "needGradient", "learningRateMultiplier", "net.dnn", '"out.dnn"', "L1.FF.W", "old.", "a*b",
    "Tanh(ce)", "Dim",
]  # fmt: skip
PIECES = [*COMMANDS, *WORDS, "=", "(", ")", ",", ";", "\n", " ", '"', "[", "]", "{", "}", "# ", "$x$", "\u00e9"]

CALLS = st.tuples(st.sampled_from(COMMANDS), st.lists(st.sampled_from(WORDS), max_size=4)).map(
    lambda call: f"{call[0]}({', '.join(call[1])})"
)
ASSIGNMENTS = st.tuples(st.sampled_from(WORDS), st.one_of(st.sampled_from(WORDS), CALLS)).map("=".join)
SCRIPTS = st.lists(st.one_of(CALLS, ASSIGNMENTS), max_size=10).map("\n".join)


QUIET = examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUIET
@given(SCRIPTS)
@example("\n".join(f"Copy(*, {letter}*)" for letter in "abcdefghijklmnop"))
@example("L1.S=L1.S\nSetInput(L1.FF.T, 1, L1.S)\nSaveModel(m, a)\nCopySubTree(L1.S, m, q)\nSaveModel(m, b)")
def test_scripts(tmp_path: Path, script: str) -> None:
    run_text(f"m=LoadModel(net.dnn)\n{script}", Disk(tmp_path))


@QUIET
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join)))
@example("x=" + "(" * 3000)
@example("[" * 3000)
@example("f(" + "[" * 3000)
@example("x=[" + "(" * 3000 + "]")
def test_any_text(tmp_path: Path, text: str) -> None:
    run_text(text, Disk(tmp_path))
