"""Our own step for recurrent networks: a recipe's network, compiled by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from workloads import Recurrent

from candidates.training import Trainer
from cntk_core.api import Minibatch, StreamData
from cntk_core.api.engines import sequence_layout
from cntk_core.config import load_recipe
from cntk_core.ops.language.reader_order import pack
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "lstm.cntk"


class Candidate(Trainer):
    """Trains the network of ``recipes/lstm.cntk``."""

    def __init__(self, workload: Recurrent, threads: int) -> None:
        dimensions = {
            "inputDim": workload.inputs,
            "embeddingDim": workload.embedding,
            "labelDim": workload.labels,
            "layers": workload.layers,
            "outputDim": workload.outputs,
            "cellDim": workload.cells,
        }
        recipe = load_recipe([f"configFile={RECIPE}", *(f"{name}={value}" for name, value in dimensions.items())])
        network = ActionContext.create(recipe, Log()).describe_network(recipe.section("Train"))
        network.infer()
        names = {name: _name_in_recipe(name) for name in workload.parameters()}
        data = [_minibatch(sequences, workload) for sequences in workload.data()]
        super().__init__(network, workload.parameters(), names, data, workload.momentum, threads)


def _name_in_recipe(name: str) -> str:
    kind, layer = name[0], name[1:]
    if layer:
        return f"recurrent[{layer}].lstm.{'Wmr' if kind == 'P' else kind}"
    return {"E": "embed.E", "V": "last.W", "v": "last.b"}[kind]


def _minibatch(sequences: list[tuple[np.ndarray, np.ndarray]], workload: Recurrent) -> Minibatch:
    layout = sequence_layout([len(labels) for _, labels in sequences])
    labels = pack([np.eye(workload.labels, dtype=np.float32)[classes] for _, classes in sequences], layout)
    return Minibatch(
        {
            "features": StreamData(pack([_features(inputs, workload) for inputs, _ in sequences], layout), layout),
            "labels": StreamData(labels, layout),
        },
        layout.frames,
    )


def _features(inputs: np.ndarray, workload: Recurrent):
    if not workload.embedding:
        return inputs
    from scipy.sparse import csr_array

    rows = np.arange(len(inputs) + 1)
    return csr_array((np.ones(len(inputs), np.float32), inputs, rows), shape=(len(inputs), workload.inputs))
