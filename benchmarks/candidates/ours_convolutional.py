"""Our own step for networks over images: a recipe's network, compiled by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from workloads import Convolutional

from candidates.training import Trainer
from cntk_core.api import Minibatch, StreamData
from cntk_core.api.engines import frame_layout
from cntk_core.config import load_recipe
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

RECIPES = Path(__file__).resolve().parents[1] / "recipes"


class Candidate(Trainer):
    """Trains the network of the workload's recipe."""

    def __init__(self, workload: Convolutional, threads: int) -> None:
        recipe = load_recipe([f"configFile={RECIPES / workload.recipe}.cntk"])
        network = ActionContext.create(recipe, Log()).describe_network(recipe.section("Train"))
        network.infer()
        for parameter in network.parameters:  # those that are not learned have no first values in the workload
            if parameter.name not in workload.shapes():
                parameter.value = np.zeros(parameter.known_shape, np.float32)
        names = {name: name for name in workload.parameters()}
        data = [_minibatch(x, y, workload) for x, y in workload.data()]
        super().__init__(network, workload.parameters(), names, data, workload.momentum, threads, workload.rate)


def _minibatch(x: np.ndarray, y: np.ndarray, workload: Convolutional) -> Minibatch:
    layout = frame_layout(len(y))
    labels = np.eye(workload.classes, dtype=np.float32)[y]
    return Minibatch({"features": StreamData(x, layout), "labels": StreamData(labels, layout)}, len(y))
