"""The builder keeps the contract of builders."""

from __future__ import annotations

from cntk_builder_simple import SimpleNetworkBuilder

from cntk_testing import BuilderContract, PackagingContract


class TestSimple(BuilderContract):
    builder_class = SimpleNetworkBuilder
    good = "layerSizes=4:6*2:3\nlayerTypes=Sigmoid\ninitValueScale=1.0"
    bad = (
        "layerSizes=4:6:3\nlayerTypes=Sigmoit",
        "layerSizes=4\nlayerTypes=Sigmoid",
        "layerSizes=4:x:3",
        "layerSizes=4:6:3\ntrainingCriterion=CrossEntropyWithSofmax",
    )


class TestEverything(TestSimple):
    good = (
        "layerSizes=4:6:5:3\nlayerTypes=Sigmoid:Tanh\napplyMeanVarNorm=true\nneedPrior=true\naddDropoutNodes=true\n"
        "trainingCriterion=SquareError\nevalCriterion=ClassificationError"
    )
    bad = (
        "rnnType=LSTMM\nlayerSizes=4:3",
        "rnnType=CLASSLM\nlayerSizes=4:5:4",
        "rnnType=SIMPLERNN\nlayerSizes=4:5:4\nrecurrentLayer=2",
    )


class TestPackaging(PackagingContract):
    distribution = "cntk-builder-simple"
    kind = "builder"
