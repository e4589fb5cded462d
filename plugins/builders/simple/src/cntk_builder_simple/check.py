"""What can be wrong with a section although each of its values can be read, and what deserves a remark."""

from __future__ import annotations

from collections.abc import Iterator

from cntk_builder_simple.criteria import OPERATIONS
from cntk_builder_simple.kinds import KINDS, NAMES, OTHER_KINDS, Kind, kind_of
from cntk_builder_simple.layers import chosen_layers
from cntk_builder_simple.options import LAYER_TYPES, OLD_KEYS, SimpleOptions
from cntk_core.api import CntkError, Config, ConfigError, did_you_mean

_EXAMPLES = {
    "vocabSize": "It is the number of words, and the last of layerSizes.",
    "nbrClass": "It is the number of classes of words, such as nbrClass=50.",
    "lookupTableOrder": "With lookupTableOrder=1 and layerSizes=10000:100:200:10000 each word becomes 100 numbers.",
    "noise_number": "It is the number of samples of noise for each word, such as noise_number=10.",
}


def problems_of(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    """Return everything that is wrong with the section."""
    kind = kind_of(chosen.rnn_type)
    found = [*_sizes(config, chosen), *_layer_types(config, chosen)]
    if kind is None:
        return [*found, _unknown_kind(config, chosen)]
    if not found:
        found += _sizes_for(config, chosen, kind)
        found += _recurrent_layers(config, chosen, kind)
        found += _direct(config, chosen, kind)
    found += _needs(config, chosen, kind)
    found += _criterion(config, "trainingCriterion", chosen.training_criterion, kind, kind.training)
    found += _criterion(config, "evalCriterion", chosen.eval_criterion, kind, kind.evaluation)
    return found


def remarks(config: Config, chosen: SimpleOptions, kind: Kind) -> Iterator[str]:
    """Yield a line for each of the section's own keys that does not do what it seems to do."""
    for key in config.keys():  # noqa: SIM118 - a Config is no dict
        where = config.location(key)
        old = {name.lower(): meant for name, meant in OLD_KEYS.items()}.get(key.lower())
        if old:
            yield f"{where}: {key} has no effect, as in the original; did you mean '{old}'?"
        elif key.lower() == "outputlayersize":
            if chosen.output_layer_size not in (-1, chosen.layer_sizes[-1]):
                yield f"{where}: {key} has no effect in {kind.described}"
        elif key.lower() not in kind.keys:
            yield f"{where}: {key} has no effect in {kind.described}"
    yield from _numbers_without_layer(config, chosen, kind)
    if "vocabSize" in kind.reads and chosen.vocab_size not in (-1, chosen.layer_sizes[-1]):
        where = config.location("vocabSize")
        yield f"{where}: vocabSize={chosen.vocab_size} has no effect: the last of layerSizes counts in {kind.described}"


def _numbers_without_layer(config: Config, chosen: SimpleOptions, kind: Kind) -> Iterator[str]:
    if kind.numbering is None:
        return
    _, left = chosen_layers(chosen, kind.numbering)
    if left:
        numbers = [str(layer + kind.numbering.base) for layer in kind.numbering.layers(chosen)]
        rest = [f"can be chosen: {', '.join(numbers)}, in ascending order"] if numbers else []
        if kind.numbering.skipped:
            rest.append("the first LSTM layer is there anyway")
        shown = ", ".join(map(str, left))
        yield f"{config.location('recurrentLayer')}: recurrentLayer {shown} chooses no layer; {'; '.join(rest)}"


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


def _sizes_for(config: Config, chosen: SimpleOptions, kind: Kind) -> Iterator[CntkError]:
    order = chosen.lookup_table_order if "lookupTableOrder" in kind.reads else 0
    fewest = kind.smallest[order > 0]
    if len(chosen.layer_sizes) < fewest:
        table = " with lookupTableOrder" if order > 0 else ""
        parts = ["input", *(["look-up"] if order > 0 else []), "hidden layer", "output"]
        yield ConfigError(
            f"rnnType={kind.name}{table} needs at least {fewest} layerSizes, not {len(chosen.layer_sizes)}",
            where=config.location("layerSizes"),
            hint=f"They are the sizes of: {', '.join(parts)}.",
        )
    if order > 0 and chosen.layer_sizes[0] % order:
        yield ConfigError(
            f"the size of the input, {chosen.layer_sizes[0]}, is not a multiple of lookupTableOrder={order}",
            where=config.location("lookupTableOrder"),
            hint="The input holds lookupTableOrder one-hot words, one after the other.",
        )


def _layer_types(config: Config, chosen: SimpleOptions) -> list[CntkError]:
    known = [name.lower() for name in (*LAYER_TYPES, "")]
    if not chosen.layer_types:
        return [
            ConfigError(
                "layerTypes names no type",
                where=config.location("layerTypes"),
                hint=f"Leave it out, or write one or more of {', '.join(LAYER_TYPES)}, separated with ':'.",
            )
        ]
    return [
        ConfigError(
            f"there is no layer type '{name}'{did_you_mean(name, LAYER_TYPES)}",
            where=config.location("layerTypes"),
            hint=f"Accepted: {', '.join(LAYER_TYPES)}",
        )
        for name in dict.fromkeys(chosen.layer_types)
        if name.lower() not in known
    ]


def _unknown_kind(config: Config, chosen: SimpleOptions) -> CntkError:
    text = ":".join(chosen.rnn_type)
    return ConfigError(
        f"there is no rnnType '{text}'{did_you_mean(text, NAMES)}",
        where=config.location("rnnType"),
        hint=f"Accepted: {', '.join(NAMES)}",
    )


def _recurrent_layers(config: Config, chosen: SimpleOptions, kind: Kind) -> list[CntkError]:
    if kind.numbering is None:
        return []
    hidden = len(chosen.layer_sizes) - 2
    hint = f"layerSizes makes the hidden layers 1 to {hidden}." if hidden else "layerSizes makes no hidden layer."
    return [
        ConfigError(
            f"recurrentLayer {number} is not a hidden layer", where=config.location("recurrentLayer"), hint=hint
        )
        for number in dict.fromkeys(chosen.recurrent_layer)
        if not 1 <= number <= hidden
    ]


def _direct(config: Config, chosen: SimpleOptions, kind: Kind) -> Iterator[CntkError]:
    if "directConnect" not in kind.reads:
        return
    given = chosen.direct_connect
    first, last = int(chosen.lookup_table_order > 0), len(chosen.layer_sizes) - 2
    where = config.location("directConnect")
    for number in dict.fromkeys(given):
        if not first <= number <= last:
            yield ConfigError(
                f"directConnect {number} is not a layer that can be linked",
                where=where,
                hint=f"Layers that can: {first} to {last}.",
            )
        if given.count(number) > 1:
            yield ConfigError(f"directConnect names layer {number} more than once", where=where)


def _needs(config: Config, chosen: SimpleOptions, kind: Kind) -> Iterator[CntkError]:
    values = {
        "vocabSize": chosen.vocab_size,
        "nbrClass": chosen.nbr_class,
        "lookupTableOrder": chosen.lookup_table_order,
        "noise_number": chosen.noise_number,
    }
    for key in kind.needs:
        if values[key] < 1:
            given = f", at least 1, not {values[key]}" if config.get(key) is not None else ""
            yield ConfigError(
                f"rnnType={kind.name} needs {key}{given}", where=config.location(key), hint=_EXAMPLES[key]
            )
    wrong = chosen.vocab_size > 0 and chosen.layer_sizes[-1:] not in ((), (chosen.vocab_size,))
    if "vocabSize" in kind.needs and wrong:
        yield ConfigError(
            f"vocabSize={chosen.vocab_size} is not the size of the output, {chosen.layer_sizes[-1]}",
            where=config.location("vocabSize"),
            hint="The last of layerSizes must be vocabSize.",
        )
    for key, value, fewest in (("auxfeatdim", chosen.auxfeatdim, 1), ("maOrder", chosen.ma_order, 0)):
        if key in kind.reads and value < fewest:
            yield ConfigError(f"{key} must be at least {fewest}, not {value}", where=config.location(key))


def _criterion(config: Config, key: str, value: str, kind: Kind, accepted: tuple[str, ...]) -> list[CntkError]:
    if value.lower() in [name.lower() for name in accepted]:
        return []
    where = config.location(key)
    if value.lower() == "sequencewithsoftmax":
        return [
            ConfigError(
                f"SimpleNetworkBuilder cannot make the criterion {value}, nor could the original's",
                where=where,
                hint="Train with crossEntropyWithSoftmax and needPrior=true, then let action=edit add\n"
                "SequenceWithSoftmax(labels, HLast, ScaledLogLikelihood).",
            )
        ]
    known = {
        name.lower() for other in KINDS for name in (other.training if key == "trainingCriterion" else other.evaluation)
    }
    hint = f"Accepted: {', '.join(accepted)}"
    if value.lower() not in known:
        return [ConfigError(f"there is no {key} '{value}'{did_you_mean(value, accepted)}", where=where, hint=hint)]
    others = OTHER_KINDS.get(OPERATIONS[value.lower()])
    meant = f"; it is for rnnType {others}" if others else ""
    return [ConfigError(f"{key}={value} does not fit {kind.described}{meant}", where=where, hint=hint)]
