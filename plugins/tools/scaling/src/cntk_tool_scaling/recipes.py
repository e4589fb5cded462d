"""The recipe whose training is measured or simulated: that of the user, or a small one of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cntk_core.api import Config, ConfigError
from cntk_core.api.recipes import RecipeContext, open_recipe

FEATURES, CLASSES, SAMPLES = 440, 183, 2048
"""Of the default data."""

DEFAULT = f"""\
command = train
precision = float
train = [
    action = train
    modelPath = "model.dnn"
    SimpleNetworkBuilder = [
        layerSizes = {FEATURES}:1024:1024:1024:{CLASSES}
        trainingCriterion = CrossEntropyWithSoftmax
        evalCriterion = ErrorPrediction
        layerTypes = Sigmoid
        applyMeanVarNorm = false
        uniformInit = true
        needPrior = false
    ]
    SGD = [ minibatchSize = 256 ; learningRatesPerSample = 0.0001 ; momentumPerMB = 0.9 ; maxEpochs = 1 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "train.ctf"
        randomize = none
        input = [
            features = [ dim = {FEATURES} ; format = dense ]
            labels = [ dim = {CLASSES} ; format = sparse ]
        ]
    ]
]
"""
"""A recipe of a network for frames of speech."""

TITLE = f"a network of {FEATURES}, 3 x 1024 and {CLASSES} units"


def training_section(
    arguments: Sequence[str], section: str | None, plugin_files: Sequence[str]
) -> tuple[RecipeContext, Config]:
    """Read a recipe and return the first of its sections that trains, or the one that is asked for.

    Raises:
        ConfigError: there is none.
    """
    context, sections = open_recipe(arguments, section, plugin_files)
    for found in sections:
        if found.get("SGD") is not None and context.builder_value(found) is not None:
            return context, found
    raise ConfigError(
        f"the section '{section}' trains nothing" if section else "no section of the recipe trains a network",
        where=context.config.where,
        hint="It needs a network and a block SGD.",
    )


@contextmanager
def default_recipe() -> Iterator[str]:
    """Within, there is a recipe with random data; gives its path."""
    with TemporaryDirectory(prefix="cntk-bench-") as folder:
        random = np.random.default_rng(1)
        rows = random.normal(size=(SAMPLES, FEATURES)).round(2)
        labels = random.integers(0, CLASSES, SAMPLES)
        with Path(folder, "train.ctf").open("w", encoding="ascii") as file:
            for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
                file.write(f"|features {' '.join(map(str, row))} |labels {label}:1\n")
        recipe = Path(folder, "bench.cntk")
        recipe.write_text(DEFAULT.replace('"train.ctf"', f'"{folder}/train.ctf"'), encoding="ascii")
        yield str(recipe)
