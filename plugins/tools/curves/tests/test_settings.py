"""What a recipe says of one job."""

from __future__ import annotations

import pytest
from cntk_tool_curves.settings import hash_of, settings_of

from cntk_core.api.builders import parse_text

RECIPE = """\
rate = 0.1
modelPath = "run/net.dnn"
Train = [
    action = train
    SGD = [ learningRatesPerSample = $rate$ ; what = $nobody$ ; earlyStopping = [ patience = 3 ] ]
    NDLNetworkBuilder = [
        ce = CrossEntropyWithSoftmax(labels,
            z)
    ]
]
Other = [ action = test ]
"""


def settings(text: str = RECIPE) -> dict[str, str]:
    config = parse_text(text, file="r.cntk")
    return settings_of(config.section("Train").section("SGD"))


def test_the_top_level_and_the_section_of_the_job():
    assert settings() == {
        "rate": "0.1",
        "modelPath": "run/net.dnn",
        "Train:action": "train",
        "Train:SGD:learningRatesPerSample": "0.1",
        "Train:SGD:what": "$nobody$",
        "Train:SGD:earlyStopping:patience": "3",
        "Train:NDLNetworkBuilder:ce": "CrossEntropyWithSoftmax(labels, z)",
    }


def test_without_a_recipe_there_are_none():
    assert settings_of(None) == {}


def test_of_the_top_level_alone():
    assert settings_of(parse_text("a=1\nB=[c=2]")) == {"a": "1"}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"run/net.dnn"', '"elsewhere/net.dnn"', True),
        ("rate = 0.1", "makeMode = false\nrate = 0.1", True),
        ("modelPath", "MODELPATH", True),
        ("action = train", "ACTION = train", True),
        ("patience = 3", "patience = 4", False),
        ("Other = [ action = test ]", "Other = [ action = write ]", True),
    ],
)
def test_the_hash_is_that_of_what_is_learned(old, new, same):
    assert old in RECIPE
    assert (hash_of(settings()) == hash_of(settings(RECIPE.replace(old, new)))) == same
