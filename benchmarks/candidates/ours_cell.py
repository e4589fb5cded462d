"""Our own step for a recurrent cell of its own: a recipe's network, compiled by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from workloads import Cell

from candidates.training import Trainer
from cntk_core.api import Minibatch, StreamData
from cntk_core.api.engines import sequence_layout
from cntk_core.config import load_recipe
from cntk_core.ops.language.reader_order import pack
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "cell.cntk"


class Candidate(Trainer):
    """Trains the network of ``recipes/cell.cntk``."""

    def __init__(self, workload: Cell, threads: int) -> None:
        dimensions = {"input": workload.inputs, "cell": workload.cells, "key": workload.keys, "label": workload.labels}
        recipe = load_recipe([f"configFile={RECIPE}", *(f"{name}Dim={value}" for name, value in dimensions.items())])
        network = ActionContext.create(recipe, Log()).describe_network(recipe.section("Train"))
        network.infer()
        data = [_minibatch(features, labels, workload) for features, labels in workload.data()]
        names = {name: name for name in workload.parameters()}
        super().__init__(network, workload.parameters(), names, data, workload.momentum, threads)


def _minibatch(features: np.ndarray, labels: np.ndarray, workload: Cell) -> Minibatch:
    layout = sequence_layout([workload.frames] * workload.sequences)
    classes = np.eye(workload.labels, dtype=np.float32)
    return Minibatch(
        {
            "features": StreamData(pack(list(features.swapaxes(0, 1)), layout), layout),
            "labels": StreamData(pack([classes[own] for own in labels.T], layout), layout),
        },
        layout.frames,
    )
