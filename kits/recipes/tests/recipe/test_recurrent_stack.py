"""Both spellings of OptimizedRNNStack, and the layer that uses it, in a recipe that learns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cntk_core.network.model_file import load_model
from cntk_core.ops.table import core_ops
from cntk_kit_recipes.cli import main

RECIPE = """
command = Train
precision = double
modelPath = "net.dnn"
Train = [
    action = train
    BrainScriptNetworkBuilder = {
        x = Input {3} ; l = Input {2}
        fused = RecurrentLSTMLayerStack {(4:4), allowOptimizedEngine = true} (x)
        W = ParameterTensor {(0:0)}
        old = RNNStack (x, W, hiddenSize = 3, numLayers = 2, bidirectional = true, rnnMode = 'gru')
        z = DenseLayer {2} (Splice (fused : old))
        ce = CrossEntropyWithSoftmax (l, z)
        featureNodes = (x) ; labelNodes = (l) ; criterionNodes = (ce) ; outputNodes = (z)
    }
    SGD = [ maxEpochs=24 ; minibatchSize=12 ; learningRatesPerSample=0.05 ; momentumPerMB=0.9 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "s.ctf"
        input = [ x=[ dim=3 ; format=dense ] ; l=[ dim=2 ; format=dense ] ]
    ]
]
"""


@pytest.mark.slow
def test_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    lines = []
    for sequence in range(20):
        for x in random.normal(size=(random.integers(1, 7), 3)):
            labels = "0 1" if x.sum() > 0 else "1 0"
            lines.append(f"{sequence} |x {' '.join(map(str, x))} |l {labels}\n")
    Path("s.ctf").write_text("".join(lines))
    Path("r.cntk").write_text(RECIPE)
    assert main(["configFile=r.cntk"]) == 0
    found = [float(number) for number in re.findall(r"Finished Epoch.*? ce = ([0-9.e+-]+)", capsys.readouterr().err)]
    assert len(found) == 24
    assert found[-1] < 0.6 * found[0]
    network = load_model("net.dnn", core_ops().find)
    stacks = [node for node in network if node.op.name == "OptimizedRNNStack"]
    # Gates * hidden * (inputs + hidden + 2), for each layer and direction.
    counts = [4 * 4 * (3 + 4 + 2) + 4 * 4 * (4 + 4 + 2), 2 * 3 * 3 * (3 + 3 + 2) + 2 * 3 * 3 * (6 + 3 + 2)]
    assert sorted(int(np.prod(stack.inputs[0].known_shape)) for stack in stacks) == sorted(counts)
