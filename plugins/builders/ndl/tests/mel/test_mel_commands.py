"""What each command of a model editing script does."""

from __future__ import annotations

import numpy as np
import pytest
from mel_scripts import Disk, make_network

from cntk_core.api import Input, Network, Node, Parameter


def links(network: Network, name: str) -> list[str]:
    return [child.name for child in network[name].inputs]


def group(network: Network, role: str) -> list[str]:
    return [node.name for node in network.roots[role]]


def parameter(network: Network, name: str) -> Parameter:
    node: Node = network[name]
    assert isinstance(node, Parameter)
    return node


# -- models -----------------------------------------------------------------------------------------------


def test_the_first_model_is_the_default(disk: Disk) -> None:
    disk.files["other.dnn"] = make_network()
    found = disk.run("a=LoadModel(net.dnn, format=cntk)\nb=LoadModel(other.dnn)\nRename(b.ce, x)\nRename(ce, y)")
    assert "y" in found
    assert "x" not in found


def test_set_default_model(disk: Disk) -> None:
    found = disk.run('a=LoadModel("net.dnn")\nLoadModelWithName(b, "net.dnn")\nSetDefaultModel(B)\nRename(ce, y)')
    assert "y" in found


def test_a_model_without_a_name(disk: Disk) -> None:
    disk.run("LoadModel(net.dnn)\nRename(ce, y)\nSaveDefaultModel(out.dnn)\nSaveModel(default, again.dnn, format=cntk)")
    assert "y" in disk.files["out.dnn"]
    assert "y" in disk.files["again.dnn"]
    assert disk.lines[0] == f"Model default with 13 nodes saved as '{disk.folder / 'out.dnn'}'."


def test_save_model_without_a_model_saves_the_default(disk: Disk) -> None:
    disk.edit('SaveModel("out.dnn")')
    assert len(disk.files["out.dnn"]) == 13


def test_create_model(disk: Disk) -> None:
    found = disk.run(
        "a=CreateModel()\nCreateModelWithName(b)\nx=Input(3, tag=feature)\nSetDefaultModel(b)\ny=Input(2, tag=label)\n"
        "SaveModel(a, a.dnn)"
    )
    assert [node.name for node in found] == ["y"]
    assert group(disk.files["a.dnn"], "feature") == ["x"]


def test_unload_model(disk: Disk) -> None:
    found = disk.run("a=LoadModel(net.dnn)\nb=LoadModel(net.dnn)\nUnloadModel(a, c)\nSetDefaultModel(b)\nRename(ce, y)")
    assert "y" in found
    assert disk.lines == [f"WARNING: {disk.folder / 'e.mel'}:3:16: there is no model c to unload"]


def test_the_default_model_stays_when_another_is_unloaded(disk: Disk) -> None:
    found = disk.run("a=LoadModel(net.dnn)\nb=LoadModel(net.dnn)\nSetDefaultModel(a)\nUnloadModel(b)\nRename(ce, y)")
    assert "y" in found


def test_a_script_that_unloads_everything_returns_an_empty_network(disk: Disk) -> None:
    assert len(disk.edit("UnloadModel(m)")) == 0


def test_a_model_of_the_same_name_is_replaced(disk: Disk) -> None:
    found = disk.edit("Rename(ce, y)\nm=LoadModel(net.dnn)")
    assert "ce" in found
    assert disk.lines == ["WARNING: the model m is replaced by a new one of the same name"]


def test_the_old_format_flattens_features(disk: Disk) -> None:
    disk.run(
        "i=CreateModel()\nx=ImageInput(2, 3, 4, tag=feature)\ny=ImageInput(2, 3, 4, tag=label)\nSaveModel(i, i.dnn)"
    )
    found = disk.run("i=LoadModel(i.dnn, format=cntk_legacy_no_tensorlib)")
    assert found["x"].shape == (24,)
    assert len(found["y"].known_shape) == 3


def test_base_is_the_default_model(disk: Disk) -> None:
    base = make_network()
    assert disk.run("Rename(ce, y)", base=base) is base
    assert "y" in base


# -- description ------------------------------------------------------------------------------------------


def test_in_line_ndl(disk: Disk) -> None:
    found = disk.edit(
        "HDim = 5 ; Rows = HDim\nW2=Parameter(Rows, HDim, init=fixedValue, value=2)\nT2=Times(W2, h1)\nh1=Pass(L1.S)\n"
        "h2=Tanh(T2) ; SetInput(OL.T, 1, h2)\nSaveModel(m, out.dnn)"
    )
    assert links(found, "OL.T") == ["OL.W", "h2"]
    assert (disk.files["out.dnn"]["W2"].value == 2).all()


def test_macros_of_the_recipe(disk: Disk) -> None:
    (disk.folder / "m.ndl").write_text("Twice(a) { s=Tanh(a) ; u=Tanh(s) }\n")
    (disk.folder / "n.ndl").write_text("load=mine\nmine=[ Once(a) { s=Sigmoid(a) } ]\n")
    found = disk.run(
        "m=LoadModel(net.dnn)\nL2=Twice(L1.S)\nL3=Once(L2)\nSetInput(OL.T, 1, L3)", 'ndlMacros="m.ndl+n.ndl"'
    )
    assert links(found, "OL.T") == ["OL.W", "L3.s"]
    assert links(found, "L3.s") == ["L2.u"]


def test_snippet(disk: Disk) -> None:
    found = disk.run(
        "m=LoadModel(net.dnn)\n"
        "s=[\n  Act(a) { y=Tanh(a) }\n  dim=5\n  x=Input(dim, tag=feature)\n  h=Act(x)\n  OutputNodes=(h.y)\n]\n"
        "g=Act(L1.S)\nSaveModel(s, s.dnn)"
    )
    assert links(found, "g.y") == ["L1.S"]  # macros of a snippet can be used everywhere
    assert group(disk.files["s.dnn"], "output") == ["h.y"]


def test_load_ndl_snippet(disk: Disk) -> None:
    (disk.folder / "s.ndl").write_text("a=[ x=Input($dim$, tag=feature) ]\nb=[ Act(u) { y=Tanh(u) } ; z=Input(2) ]\n")
    found = disk.run(
        "m=LoadModel(net.dnn)\nLoadNDLSnippet(s, s.ndl, section=a)\nLoadNDLSnippet(t, s.ndl, section=b)\n"
        "LoadNDLSnippet(u, s.ndl, section=b)\nr=Act(L1.S)\nSaveModel(s, s.dnn)",
        "dim=7",
    )
    assert "r.y" in found
    assert disk.files["s.dnn"]["x"].shape == (7,)


def test_sections_of_a_script(disk: Disk) -> None:
    found = disk.run(
        "load=macros\nedit=first:second\nsecond=[\n h=Act(L1.S)\n]\nfirst=[\n m=LoadModel(net.dnn)\n Rename(ce, y)\n]\n"
        "macros=[\n Act(u) { y=Tanh(u) }\n]\n"
    )
    assert "y" in found
    assert "h.y" in found


def test_commands_of_the_section(disk: Disk) -> None:
    found = disk.build('editCommands="Rename(ce, x); Rename(err, $name$)"\nname=y', make_network())
    assert "x" in found
    assert "y" in found


# -- text -------------------------------------------------------------------------------------------------


def test_dumps(disk: Disk) -> None:
    disk.edit('Dump(m, "deep/all.txt")\nDumpModel(m, v.txt, includeData=true)\nDumpNode(L1.*.B, n.txt, includeData=t)')
    text = (disk.folder / "deep/all.txt").read_text()
    assert " \nce=CrossEntropyWithSoftmax ( labels , OL.P ) " in text
    assert "####" not in text
    assert (disk.folder / "v.txt").read_text().count("#" * 68) == 4
    assert (disk.folder / "n.txt").read_text() == (
        " \nL1.FF.B=LearnableParameter [5,1]   learningRateMultiplier=1.000000  NeedsGradient=true"
        f" \n 0 \n 0 \n 0 \n 0 \n 0 \n {'#' * 68}"
    )


def test_a_dump_has_shapes_and_first_values_of_what_the_script_added(disk: Disk) -> None:
    disk.run(
        "CreateModel()\nx=Input(2)\nW=Parameter(3, 2, init=fixedValue, value=0.5)\ny=Times(W, x)\n"
        "DumpModel(default, d.txt, includeData=true)"
    )
    text = (disk.folder / "d.txt").read_text()
    assert " \nW=LearnableParameter [3,2]   learningRateMultiplier=1.000000  NeedsGradient=true" in text
    assert text.count(" 0.5") == 6
    assert disk.lines == []


# -- copies -----------------------------------------------------------------------------------------------


def test_copy_a_layer(disk: Disk) -> None:
    found = disk.edit("Copy(L1.*, L2.*, copy=all)")
    assert [node.name for node in found if node.name.startswith("L2")] == [
        "L2.FF.W", "L2.FF.B", "L2.FF.T", "L2.FF.P", "L2.S"
    ]  # fmt: skip
    assert links(found, "L2.FF.P") == ["L2.FF.T", "L2.FF.B"]
    np.testing.assert_array_equal(found["L2.FF.W"].value, found["L1.FF.W"].value)


def test_copy_needs_its_outer_links_set(disk: Disk) -> None:
    found = disk.edit("CopyNode(L1.*, L2.*)\nSetNodeInput(L2.*.T, 1, features)\nSaveModel(m, out.dnn)")
    assert links(found, "L2.FF.T") == ["L2.FF.W", "features"]
    assert "L2.S" in disk.files["out.dnn"]


def test_copy_values_to_many(disk: Disk) -> None:
    found = disk.run(
        "a=LoadModel(net.dnn)\nb=LoadModel(net.dnn)\nW=Parameter(5, 4, init=fixedValue, value=3)\nV=Parameter(5, 4)\n"
        "CopyNode(W, *V, copy=value)\nCopyNode(W, b.L1.*.W, copy=val)\nSaveModel(b, b.dnn)"
    )
    assert (found["V"].value == 3).all()
    assert (disk.files["b.dnn"]["L1.FF.W"].value == 3).all()


def test_assignment_copies_nodes(disk: Disk) -> None:
    found = disk.edit("U=Parameter(5, 1, init=fixedValue, value=1)\nL1.*B = U\nC2 = U\nL9.* = L1.*")
    assert (found["L1.FF.B"].value == 1).all()
    assert (found["OL.B"].value == 0).all()
    assert (found["C2"].value == 1).all()
    assert links(found, "L9.S") == ["L9.FF.P"]


def test_copy_between_models(disk: Disk) -> None:
    found = disk.run("a=CreateModel()\nb=LoadModel(net.dnn)\nCopyNode(b, a.*)\nSetProperty(ce, criterion, true)")
    assert [node.describe() for node in found] == [node.describe() for node in make_network()]
    assert group(found, "criterion") == ["ce"]
    assert group(found, "output") == []


def test_copy_sub_tree(disk: Disk) -> None:
    found = disk.run(
        "a=CreateModel()\nb=LoadModel(net.dnn)\nCopySubTree(b.L1.S, a, old., copy=all)\nSaveModel(a, a.dnn)\n"
        'CopySubTree(b.L1.S, b, "new.")\nSaveModel(b, b.dnn)'
    )
    assert sorted(node.name for node in found) == [
        "old.L1.FF.B", "old.L1.FF.P", "old.L1.FF.T", "old.L1.FF.W", "old.L1.S", "old.features"
    ]  # fmt: skip
    assert isinstance(found["old.features"], Input)
    assert links(disk.files["b.dnn"], "new.L1.FF.T") == ["new.L1.FF.W", "new.features"]


def test_copy_inputs(disk: Disk) -> None:
    found = disk.edit("T2=Times(OL.W, L1.S)\nCopyNodeInputs(L1.FF.T, T2)\nT3=Times(OL.W, L1.S)\nCopyInputs(T2, *3)")
    assert links(found, "T2") == links(found, "T3") == ["L1.FF.W", "features"]


# -- links, names, properties -----------------------------------------------------------------------------


def test_set_inputs(disk: Disk) -> None:
    found = disk.edit("V=Parameter(5, 4)\nSetNodeInputs(L1.*.T, V, features)\nSetInputs(m.OL.P, OL.B, OL.T)")
    assert links(found, "L1.FF.T") == ["V", "features"]
    assert links(found, "OL.P") == ["OL.B", "OL.T"]


@pytest.mark.parametrize("command", ["RemoveNode", "Remove", "DeleteNode", "Delete", "removen"])
def test_remove(disk: Disk, command: str) -> None:
    found = disk.edit(f"{command}(ce, err)\nSaveModel(m, out.dnn)")
    assert "ce" not in found
    assert group(disk.files["out.dnn"], "criterion") == []


def test_remove_and_make_anew(disk: Disk) -> None:
    found = disk.edit(
        "SetProperty(ce, criterion, false)\nRemove(ce)\nce = SquareError(labels, OL.P)\n"
        "SetProperty(ce, criterion, true)\nRemove(ce)\n"
        "ce = CrossEntropyWithSoftmax(labels, OL.P, tag=Criteria)\nSaveModel(m, out.dnn)"
    )
    assert found["ce"].op.name == "CrossEntropyWithSoftmax"
    assert group(found, "criterion") == ["ce"]


def test_rename(disk: Disk) -> None:
    found = disk.edit("Rename(L1.*, Hidden.*)\nRename(m.*.S, *.Out)\nRename(ce, m.CE)")
    assert "Hidden.FF.W" in found
    assert links(found, "OL.T") == ["OL.W", "Hidden.Out"]
    assert found["ce"].name == "CE"


@pytest.mark.parametrize(
    ("name", "role"),
    [("criterion", "criterion"), ("Criteria", "criterion"), ("finalCriterion", "criterion"), ("eval", "evaluation"),
     ("evaluation", "evaluation"), ("out", "output")],
)  # fmt: skip
def test_groups(disk: Disk, name: str, role: str) -> None:
    found = disk.edit(f'SetProperty(L1.S, {name}, true)\nSetProperty(OL.P, "output", false)')
    assert "L1.S" in group(found, role)
    assert "OL.P" not in group(found, "output")


def test_features_and_labels(disk: Disk) -> None:
    found = disk.edit("SetProperty(features, feature, false)\nSetProperty(features, label, 1)")
    assert group(found, "feature") == []
    assert group(found, "label") == ["labels", "features"]


def test_learning_rates(disk: Disk) -> None:
    found = disk.edit("SetProperty(*.W, learningRateMultiplier, .5)\nSetProperty(OL.B, needsGradient, false)")
    assert parameter(found, "L1.FF.W").learning_rate_multiplier == 0.5
    assert not parameter(found, "OL.B").learned
    found = disk.edit(
        "SetPropertyForSubTree(L1.S, computeGradient, false)\nSetPropertyForSubTree(L1.S, learningRateM, 2)"
    )
    assert parameter(found, "L1.FF.W").learning_rate_multiplier == 2
    assert parameter(found, "OL.W").learning_rate_multiplier == 1


def test_properties_without_effect_are_named(disk: Disk) -> None:
    disk.edit("SetProperty(ce, MultiSeq, true)\nSetProperty(ce, recurrent, true)")
    file = disk.folder / "e.mel"
    assert disk.lines == [
        f"WARNING: {file}:2:17: the property multiSeq has no effect",
        f"WARNING: {file}:3:17: the property recurrent has no effect",
    ]


def test_revise_parameter(disk: Disk) -> None:
    (disk.folder / "w.txt").write_text("1 2 3 4\n" * 5)
    found = disk.edit("ReviseParameter(L1.*W, w.txt)")
    np.testing.assert_array_equal(found["L1.FF.W"].value, np.tile([[1], [2], [3], [4]], 5))
    assert disk.lines == ["Revise node L1.FF.W using parameter file w.txt"]


# -- names ------------------------------------------------------------------------------------------------


def test_a_node_called_like_a_model(disk: Disk) -> None:
    found = disk.run("L1=LoadModel(net.dnn)\nSetProperty(L1.S, output, true)\nSetProperty(L1.L1.FF.T, output, true)")
    assert group(found, "output") == ["OL.P", "L1.S", "L1.FF.T"]


def test_names_with_brackets(disk: Disk) -> None:
    found = disk.edit("Rename(L1.S, x.PlusArgs[0])\nh=Tanh(L1.FF.P)\nSetInput(OL.T, 1, h)\nDelete(x.PlusArgs[0])")
    assert "x.PlusArgs[0]" not in found
    assert links(found, "OL.T") == ["OL.W", "h"]


def test_variables_and_comments(disk: Disk) -> None:
    found = disk.run(
        '# first\nm = LoadModel("$model$", format="cntk") # second\n\n  Rename( ce , $new$.x )\nSetDefaultModel(m)',
        'model="net.dnn"\nnew=2nd',
    )
    assert "2nd.x" in found
