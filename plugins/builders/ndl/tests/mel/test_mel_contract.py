"""The builder of scripts keeps the contract of builders."""

from __future__ import annotations

from cntk_builder_ndl import MELBuilder

from cntk_testing import BuilderContract

SCRIPT = """
editCommands = [
    m = CreateModel()
    features = Input(4, tag=feature)
    labels = Input(3, tag=label)
    W = Parameter(3, 4)
    t = Times(W, features)
    CopyNode(W, V) ; CopyNode(t, z)
    SetInputs(z, V, features)
    Remove(t)
    ce = CrossEntropyWithSoftmax(labels, z)
    SetProperty(ce, criterion, true)
]
"""


class TestMEL(BuilderContract):
    builder_class = MELBuilder
    good = SCRIPT
    bad = (
        SCRIPT.replace("CreateModel()", "CraeteModel()"),
        SCRIPT.replace("Remove(t)", "Remove(u)"),
        SCRIPT.replace("Remove(t)", "Remove(V) ; SaveModel(m, x.dnn)"),
        SCRIPT.replace("SetInputs(z, V, features)", "SetInputs(z, V"),
        "editPath = nix.mel",
        "",
    )
