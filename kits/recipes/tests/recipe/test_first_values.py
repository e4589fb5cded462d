"""The random first values of the networks of one run."""

from __future__ import annotations

import numpy as np

from cntk_core.config import parse_text
from cntk_core.network.network import Network
from cntk_kit_builders.first_values.initializers import Random
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log

BLOCKS = {
    "ndl": """NDLNetworkBuilder=[ randomSeedOffset=3 ; run=n
        n=[ x=Input(4,tag=feature) ; A=Parameter(2,3) ; B=Parameter(2,3) ] ]""",
    "bs": "BrainScriptNetworkBuilder={ x = Input {4} ; A = ParameterTensor {(2:3)} ; B = ParameterTensor {(2:3)} }",
    "simple": "SimpleNetworkBuilder=[ layerSizes=4:4:4 ; trainingCriterion=SquareError ; uniformInit=true ]",
}


def built(context: ActionContext, kind: str) -> Network:
    return context.build_network(context.config.section(kind))


def context_of(head: str = "") -> ActionContext:
    blocks = "\n".join(f"{name}=[ {block} ]" for name, block in BLOCKS.items())
    return ActionContext.create(parse_text(f"precision=double\n{head}\n{blocks}"), Log(quiet=True))


def assert_drawn(network: Network, **seeds: int) -> None:
    for name, seed in seeds.items():
        parameter = network[name]
        assert np.array_equal(parameter.value, Random()(parameter.known_shape, np.dtype(float), seed)), name


def test_each_language_goes_on_counting_from_network_to_network() -> None:
    context = context_of()
    assert_drawn(built(context, "ndl"), A=4, B=5)
    assert_drawn(built(context, "bs"), A=1, B=2)
    assert_drawn(built(context, "ndl"), A=6, B=7)
    assert_drawn(built(context, "bs"), A=3, B=4)
    assert_drawn(built(context_of(), "bs"), A=1, B=2)


def test_simple_networks_count_from_one() -> None:
    context = context_of()
    for _ in range(2):
        assert_drawn(built(context, "simple"), W0=1, W1=2)


def test_one_seed_for_all() -> None:
    context = context_of("forceConstantRandomSeed=true")
    assert_drawn(built(context, "ndl"), A=1, B=1)
    assert_drawn(built(context, "bs"), A=1, B=1)
    assert_drawn(built(context, "simple"), W0=1, W1=1)
