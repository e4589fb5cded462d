"""The exact text of mistakes in scripts."""

from __future__ import annotations

import pytest
from mel_scripts import Disk

from cntk_core.api import CntkError

COMMANDS = (
    "CreateModel, CreateModelWithName, LoadModel, LoadModelWithName, LoadNDLSnippet, SaveDefaultModel, SaveModel, "
    "SetDefaultModel, UnloadModel, DumpModel, DumpNode, CopyNode, CopySubTree, CopyNodeInputs, SetNodeInput, "
    "SetNodeInputs, SetProperty, SetPropertyForSubTree, RemoveNode, Rename, ReviseParameter"
)

# The script is line 2 and following of e.mel, after m=LoadModel(net.dnn).
WRONG = {
    # text
    "unknown command": (
        "Frobnicate(z,x)",
        f"e.mel:2:1: there is no command 'Frobnicate'\n    Commands: {COMMANDS}",
    ),
    "misspelt command": (
        "SetDefualtModel(m)",
        "e.mel:2:1: there is no command 'SetDefualtModel'; did you mean 'SetDefaultModel'?\n"
        f"    Commands: {COMMANDS}",
    ),
    "too short a command": ("Ren", "e.mel:2:1: 'Ren' is not followed by '(' or '='\n"
        "    Write Command(arguments), name=LoadModel(file), or a statement of NDL."),
    "too few arguments": (
        "Rename(ce)",
        "e.mel:2:1: Rename cannot be called with 1 argument\n    Usage: Rename(old, new)",
    ),
    "too many arguments": (
        "m2=LoadModel(a, b)",
        "e.mel:2:4: LoadModelWithName cannot be called with 2 arguments\n"
        "    Usage: LoadModelWithName(model, file, format=cntk)",
    ),
    "no arguments": (
        "SaveModel()",
        "e.mel:2:1: SaveModel cannot be called with no arguments\n    Usage: SaveModel(model, file, format=cntk)",
    ),
    "unknown option": (
        "CopyNode(a, b, cpoy=all)",
        "e.mel:2:16: CopyNode has no option 'cpoy'; did you mean 'copy'?\n"
        "    Usage: CopyNode(from, to, copy=all|value)",
    ),
    "option given twice": ("CopyNode(a, b, copy=all, copyFlag=all)", "e.mel:2:26: 'copyFlag' is given twice"),
    "not closed": ("Rename(ce, x", "e.mel:2:7: no closing ')' for this '('"),
    "wrong brace": ("Rename(ce, x]", "e.mel:2:13: ']' where ')' is expected"),
    "quotation mark": ('SaveModel(m, "x.dnn)', "e.mel:2:14: no closing '\"' for this quotation mark"),
    "text without comma": ('SaveModel(m, "a" b)', "e.mel:2:14: ',' is missing after this text"),
    "no name": ("(ce)", "e.mel:2:1: a line begins with a command or a name, not with '('"),
    "no value": ("x=", "e.mel:2:3: a value is missing for 'x'"),
    "macro": (
        "M(a) { b=Tanh(a) }",
        "e.mel:2:1: the macro 'M' cannot be defined in a script\n"
        "    Define macros in a file that ndlMacros names, or in a snippet: model=[ ... ].",
    ),
    # models
    "unknown model": (
        "SetDefaultModel(n)",
        "e.mel:2:17: there is no model 'n'\n    Models here: m",
    ),
    "unknown file": ('n=LoadModel("nix.dnn")', "e.mel:2:14: the model 'nix.dnn' does not exist"),
    "name of a model": (
        "a.b=LoadModel(net.dnn)",
        "e.mel:2:1: 'a.b' cannot be the name of a model\n    Write one word without dots.",
    ),
    "format": (
        "n=LoadModel(net.dnn, format=onnx)",
        "e.mel:2:29: there is no model format 'onnx'\n    Formats: cntk, cntk_legacy_no_tensorlib",
    ),
    "no default model": (
        "UnloadModel(m)\nRename(a, b)",
        "e.mel:3:8: there is no default model\n    Load one: m=LoadModel(file).",
    ),
    "no default model for NDL": (
        "n=LoadModel(net.dnn)\nUnloadModel(m)\nh=Tanh(ce)",
        "e.mel:4:1: there is no default model\n    Call SetDefaultModel(n) first.",
    ),
    "empty file name": ('SaveModel(m, "")', "e.mel:2:15: the file name is empty"),
    # nodes
    "unknown node": ("Rename(cee, x)", "e.mel:2:8: the network has no node 'cee'; did you mean 'ce'?"),
    "unknown node of a model": ("SetProperty(m.cee, output, true)",
        "e.mel:2:13: the network has no node 'cee'; did you mean 'ce'?"),
    "nothing fits": (
        "Remove(L2.*)",
        "e.mel:2:8: the network has no node that fits 'L2.*'",
    ),
    "patterns that do not go together": (
        "CopyNode(L1.*, L2)",
        "e.mel:2:16: 'L1.*' and 'L2' do not go together: the one has 1 '*', the other 0\n"
        "    What a '*' stands for in the first name is put in place of the '*' in the second one.",
    ),
    "copy of values to nothing": (
        "CopyNode(ce, cf, copy=value)",
        "e.mel:2:1: the values of 'ce' cannot be copied: there is no node 'cf'\n"
        "    Copy everything (copy=all) to make a new node.",
    ),
    "way to copy": ("CopyNode(ce, cf, copy=some)", "e.mel:2:23: copy must be all or value, not 'some'"),
    "copy onto itself": ("CopyNode(ce, m.CE)", "e.mel:2:1: 'ce' cannot be copied onto itself"),
    "another operation": (
        "CopyNode(ce, err)",
        "e.mel:2:1: 'ce' cannot be copied to 'err': it is a CrossEntropyWithSoftmax, and that is a "
        "ClassificationError\n    Remove 'err' first, or choose another name.",
    ),
    "input of another model": (
        "n=LoadModel(net.dnn)\nSetInput(ce, 0, n.labels)",
        "e.mel:3:1: SetNodeInput works within one model: 'n.labels' is in n, 'ce' in m\n"
        "    Copy the node with CopyNode or CopySubTree first.",
    ),
    "several inputs": (
        "SetInput(OL.P, 0, *.T)",
        "e.mel:2:19: an input must be one node, and '*.T' means 2: L1.FF.T, OL.T",
    ),
    "index of an input": ("SetInput(OL.P, two, ce)",
        "e.mel:2:16: the index of an input (from 0) must be a whole number, not 'two'"),
    "index too large": ("SetInput(OL.P, 2, ce)", "e.mel:2:1: Plus 'OL.P' has the inputs 0 to 1, not 2"),
    "number of inputs": ("SetInputs(OL.P, ce)", "e.mel:2:1: Plus 'OL.P' takes 2 inputs, not 1"),
    "name in use": ("Rename(ce, err)", "e.mel:2:1: cannot rename 'ce' to 'err': the name is already used"),
    "tree into no model": ("CopySubTree(ce, n, x.)", "e.mel:2:17: there is no model 'n'\n    Models here: m"),
    # properties
    "unknown property": (
        "SetProperty(ce, critreion, true)",
        "e.mel:2:17: there is no property 'critreion'; did you mean 'criterion'?\n"
        "    Properties: criterion, finalCriterion, Criteria, eval, evaluation, needGradient, needsGradient, "
        "computeGradient, feature, label, learningRateMultiplier, output, recurrent, multiSeq, freezeParameters",
    ),
    "property of a tree": (
        "SetPropertyForSubTree(ce, output, true)",
        "e.mel:2:27: there is no property 'output'\n"
        "    Properties: needGradient, needsGradient, computeGradient, learningRateMultiplier, freezeParameters",
    ),
    "truth value": ("SetProperty(ce, output, maybe)", "e.mel:2:25: output must be true or false, not 'maybe'"),
    "number": ("SetProperty(L1.FF.W, learningRateMultiplier, x)",
        "e.mel:2:46: learningRateMultiplier must be a number, not 'x'"),
    "negative rate": ("SetProperty(L1.FF.W, learningRateMultiplier, -1)",
        "e.mel:2:1: a learning rate multiplier must be a number from 0 on, not -1"),
    "no parameter": ("SetProperty(ce, needGradient, false)",
        "e.mel:2:1: only parameters learn, and there is none among 'ce'"),
    "frozen": ("SetProperty(ce, freezeParameters, true)",
        "e.mel:2:1: CrossEntropyWithSoftmax 'ce' is not a BatchNormalization and cannot be frozen"),
    "values of an operation": ("ReviseParameter(ce, w.txt)",
        "e.mel:2:17: only parameters have values, and 'ce' is a CrossEntropyWithSoftmax"),
    # saving
    "removed input": (
        "Remove(L1.S)\nSaveModel(m, x.dnn)",
        "e.mel:3:1: input 1 of Times 'OL.T' leads nowhere: 'L1.S' is not in the network any more\n"
        "    Link input 1 of 'OL.T' to another node, or remove 'OL.T' too.",
    ),
    "input that was not copied": (
        "Copy(L1.*, L2.*)\nSaveModel(m, x.dnn)",
        "e.mel:2:1: input 1 of Times 'L2.FF.T' leads nowhere: 'features' was not copied with it\n"
        "    Link input 1 of 'L2.FF.T' to another node, or remove 'L2.FF.T' too.",
    ),
    "shapes": (
        "SetInput(OL.T, 1, features)\nSaveModel(m, x.dnn)",
        None,
    ),
    # NDL
    "in-line NDL": ("h=Tahn(ce)", "e.mel:2:3: there is no function or macro 'Tahn'; did you mean 'Tanh'?"),
    "node in NDL": ("h=Tanh(cee)", "e.mel:2:8: the name 'cee' is not defined; did you mean 'ce'?"),
    "text of NDL": ("h=Tanh(ce ce)", "e.mel:2:11: ',' is missing before 'ce'"),
    "snippet": ("s=[ h=Tanh(ce) ]", "e.mel:2:12: the name 'ce' is not defined"),
}  # fmt: skip


def message_of(disk: Disk, script: str, keys: str = "") -> str:
    with pytest.raises(CntkError) as error:
        disk.run(script, keys)
    return str(error.value).replace(f"{disk.folder}/", "")


@pytest.mark.parametrize("case", WRONG)
def test_mistakes(disk: Disk, case: str) -> None:
    commands, expected = WRONG[case]
    found = message_of(disk, f"m=LoadModel(net.dnn)\n{commands}")
    if expected is None:
        assert "Times 'OL.T'" in found
    else:
        assert found == expected


def test_all_mistakes_of_the_text_at_once_and_nothing_is_run(disk: Disk) -> None:
    found = message_of(
        disk, "m=LoadModel(nix.dnn)\nRename(a\nFoo(b)\nSetInput(a, 0)\nh=Tanh(\nk=Tanh(a b)\nSaveModel(m, x.dnn)"
    )
    places = [line.split(": ")[0] for line in found.splitlines() if line.startswith("e.mel")]
    assert places == ["e.mel:2:7", "e.mel:3:1", "e.mel:4:1", "e.mel:5:7", "e.mel:6:10"]
    assert found.endswith("\n5 problems found")


def test_nothing_is_saved_after_the_command_that_fails(disk: Disk) -> None:
    found = message_of(disk, "m=LoadModel(net.dnn)\nSaveModel(m, a.dnn)\nRename(nix, x)\nSaveModel(m, b.dnn)")
    assert found == "e.mel:3:8: the network has no node 'nix'"
    assert sorted(disk.files) == ["a.dnn", "net.dnn"]


def test_files_that_are_not_there(disk: Disk) -> None:
    assert message_of(disk, "m=LoadModel(net.dnn)\nReviseParameter(L1.FF.W, w.txt)") == (
        "e.mel:2:26: cannot read the initial values 'w.txt': No such file or directory"
    )
    assert message_of(disk, "LoadNDLSnippet(s, s.ndl)") == (
        "e.mel:1:19: cannot read the file 's.ndl': No such file or directory\n"
        "    Relative paths count from currentDirectory, or from where the command was started."
    )


def test_a_matrix_of_another_size(disk: Disk) -> None:
    (disk.folder / "w.txt").write_text("1 2\n3 4\n")
    assert message_of(disk, "m=LoadModel(net.dnn)\nReviseParameter(L1.FF.W, w.txt)") == (
        "w.txt: the file has 2 rows of 2 values, the parameter [5 x 4] needs 5 rows of 4 values"
    )


def test_keys_that_are_missing(disk: Disk) -> None:
    with pytest.raises(CntkError) as error:
        disk.build("ndlMacros=x.ndl")
    assert "x.ndl" in str(error.value)
    with pytest.raises(CntkError) as error:
        disk.build("a=b")
    assert "editPath" in str(error.value)


def test_a_section_that_is_missing(disk: Disk) -> None:
    assert message_of(disk, "edit=b\na=[ CreateModel() ]") == (
        "e.mel: there is no section 'b', which 'edit' names\n    Sections here: edit, a"
    )


def test_mistakes_of_macros(disk: Disk) -> None:
    (disk.folder / "m.ndl").write_text("M(a) { y=Tahn(a) }\n")
    assert message_of(disk, "CreateModel()", "ndlMacros=m.ndl") == (
        "m.ndl:1:10: there is no function or macro 'Tahn'; did you mean 'Tanh'?"
    )
