"""The builder keeps the contract of builders."""

from __future__ import annotations

from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_testing import BuilderContract, PackagingContract

NET = """
features = Input {4}
labels = Input {3, tag = 'label'}
model = Sequential (DenseLayer {5, activation = Sigmoid} : LinearLayer {3})
z = model (features)
ce = CrossEntropyWithSoftmax (labels, z)
errs = ClassificationError (labels, z)
criterionNodes = (ce)
evaluationNodes = (errs)
outputNodes = (z)
"""


class TestBrainScript(BuilderContract):
    builder_class = BrainScriptNetworkBuilder
    good = NET
    bad = (
        NET.replace("Sigmoid", "Sigmoit"),
        NET.replace("Input {4}", "Input {4, 5}"),
        NET.replace("LinearLayer {3}", "LinearLayer {2}"),
        NET.replace("ce = ", "ce = ("),
        NET.replace("criterionNodes = (ce)", "criterionNodes = (4)"),
        NET + "y = new ComputationNode [ operation = 'Nothing' ; inputs = z ]",
    )


class TestPackaging(PackagingContract):
    distribution = "cntk-builder-brainscript"
    kind = "builder"
