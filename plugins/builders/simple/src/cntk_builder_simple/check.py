"""What can be wrong with a section although each of its values can be read."""

from __future__ import annotations

from cntk_builder_simple.options import (
    CRITERIA,
    FEED_FORWARD_TYPES,
    LATER_CRITERIA,
    LAYER_TYPES,
    RECURRENT_KEYS,
    RECURRENT_TYPES,
    SimpleOptions,
)
from cntk_core.api import CntkError, Config, ConfigError, UnsupportedError, did_you_mean

EVALUATION_ERROR = ("classificationError", "errorPrediction")
"""Names of the error count, an evaluation criterion only."""


def problems_of(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    """Return everything that is wrong with the section."""
    found = [*_sizes(config, chosen), *_layer_types(config, chosen), *_kind(config, chosen)]
    found += _criterion(config, "trainingCriterion", chosen.training_criterion, ())
    found += _criterion(config, "evalCriterion", chosen.eval_criterion, EVALUATION_ERROR)
    return found


def without_effect(config: Config, chosen: SimpleOptions) -> list[str]:
    """Return the section's own keys that a feed-forward network does not read."""
    keys = [key for key in config.keys() if key.lower() in {name.lower() for name in RECURRENT_KEYS}]  # noqa: SIM118
    if chosen.output_layer_size not in (-1, chosen.layer_sizes[-1]):
        keys.append("outputLayerSize")
    return keys


def _sizes(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    where = config.location("layerSizes")
    if len(chosen.layer_sizes) < 2:
        return [
            ConfigError(
                "layerSizes must have at least two sizes, of the input and of the output",
                where=where,
                hint="Write layerSizes=64:256:10 for 64 inputs, a hidden layer of 256 and 10 outputs.",
            )
        ]
    return [
        ConfigError(f"a layer of size {size} is not possible", where=where) for size in chosen.layer_sizes if size < 1
    ]


def _layer_types(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    known = [name.lower() for name in (*LAYER_TYPES, "")]
    return [
        ConfigError(
            f"there is no layer type '{name}'{did_you_mean(name, LAYER_TYPES)}",
            where=config.location("layerTypes"),
            hint=f"Accepted: {', '.join(LAYER_TYPES)}",
        )
        for name in dict.fromkeys(chosen.layer_types)
        if name.lower() not in known
    ]


def _kind(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    names = [name.upper() for name in chosen.rnn_type]
    if any(name in FEED_FORWARD_TYPES for name in names):
        return []
    where = config.location("rnnType")
    recurrent = [name for name in names if name in RECURRENT_TYPES]
    if not recurrent:
        text = ":".join(chosen.rnn_type)
        known = (*FEED_FORWARD_TYPES, *RECURRENT_TYPES)
        return [
            ConfigError(
                f"there is no rnnType '{text}'{did_you_mean(text, known)}",
                where=where,
                hint=f"Accepted: {', '.join(known)}",
            )
        ]
    wanted = {key.lower() for key in RECURRENT_KEYS}
    keys = [key for key in config.keys() if key.lower() in wanted]  # noqa: SIM118 - a Config is no dict
    options = f" with {', '.join(keys)}" if keys else ""
    return [
        UnsupportedError(
            f"SimpleNetworkBuilder networks of rnnType {recurrent[0]}{options} are not there yet",
            where=where,
            hint="rnnType=SIMPLENET, the feed-forward network, is.",
        )
    ]


def _criterion(config: Config, key: str, value: str, more: tuple[str, ...]) -> list[CntkError]:
    name = value.lower()
    if name in CRITERIA or name in [other.lower() for other in more]:
        return []
    if name in [other.lower() for other in LATER_CRITERIA]:
        return [UnsupportedError(f"{key}={value} is not there yet", where=config.location(key))]
    accepted = ("crossEntropyWithSoftmax", "squareError", "logistic", *more)
    return [
        ConfigError(
            f"there is no {key} '{value}'{did_you_mean(value, accepted)}",
            where=config.location(key),
            hint=f"Accepted: {', '.join(accepted)}",
        )
    ]
