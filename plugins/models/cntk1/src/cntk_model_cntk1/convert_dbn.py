"""The action convertdbn: a model from a DBN file."""

from __future__ import annotations

from cntk_core.api import Action, CntkError, Config, ConfigError, did_you_mean, option, options, raise_problems
from cntk_core.api.builders import Random, initialize_parameters
from cntk_core.api.recipes import RecipeContext
from cntk_model_cntk1.dbn_file import Dbn, read_dbn
from cntk_model_cntk1.from_dbn import HIDDEN_TYPES, Conversion, network_of

_CRITERIA = {
    "crossEntropyWithSoftmax": "CrossEntropyWithSoftmax",
    "squareError": "SquareError",
    "logistic": "Logistic",
}
_EVALUATIONS = {
    **_CRITERIA,
    "classificationError": "ClassificationError",
    "errorPrediction": "ClassificationError",
}
_LAYER_TYPES = ("Sigmoid", "RectifiedLinear", "Tanh", "None")


@options
class ConvertOptions:
    """Keys of the action, those of SimpleNetworkBuilder that it reads included."""

    model_path: str = option(doc="the model that is written")
    dbn_model_path: str = option(doc="the DBN file")
    training_criterion: str = option(default="crossEntropyWithSoftmax", doc="what is minimised")
    eval_criterion: str = option(default="classificationError", doc="what is reported")
    layer_types: tuple[str, ...] = option(default=("Sigmoid",), doc="non-linearities of the hidden layers")
    layer_sizes: tuple[int, ...] = option(default=(), doc="the last one is used if outputLayerSize is not given")
    output_layer_size: int = option(default=-1, doc="size of the output layer of a network that has none")
    uniform_init: bool = option(default=True, doc="its initial values uniform, else normal")
    init_value_scale: float = option(default=1.0, doc="scale of its initial values")
    need_prior: bool = option(default=False, doc="give it a prior")
    add_dropout_nodes: bool = option(default=False, doc="a Dropout behind each hidden layer")


class ConvertDbnAction(Action):
    """Makes a model from a DBN file."""

    requires_api = "1.0"
    name = "convertdbn"
    writes = ("modelPath",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        _conversion(section)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Read ``dbnModelPath`` and write ``modelPath``.

        Raises:
            CntkError: a file cannot be read or written, or the output layer is missing and its size is not given.
        """
        chosen, conversion = _conversion(section)
        place = section.location("dbnModelPath")
        dbn = read_dbn(chosen.dbn_model_path, place)
        for line in _described(dbn):
            context.log.plain(line)
        try:
            network = network_of(dbn, conversion, context.dtype)
        except CntkError as error:
            error.where = error.where or place
            raise
        network.infer()
        initialize_parameters(network)
        context.save_model(network, chosen.model_path, section.location("modelPath"))


def _described(dbn: Dbn) -> list[str]:
    return [
        f"DBN: Reading ({len(layer.weights)} x {layer.weights.shape[1]}) {layer.kind} layer" for layer in dbn.layers
    ]


def _conversion(section: Config) -> tuple[ConvertOptions, Conversion]:
    chosen = section.bind(ConvertOptions, ignore=section.keys(), what="action convertdbn")
    problems: list[CntkError] = []
    training = _criterion(section, "trainingCriterion", chosen.training_criterion, _CRITERIA, problems)
    evaluation = _criterion(section, "evalCriterion", chosen.eval_criterion, _EVALUATIONS, problems)
    problems += [
        ConfigError(
            f"there is no layer type '{name}'{did_you_mean(name, _LAYER_TYPES)}",
            where=section.location("layerTypes"),
            hint=f"Accepted: {', '.join(_LAYER_TYPES)}",
        )
        for name in chosen.layer_types
        if name.lower() not in HIDDEN_TYPES
    ]
    size = chosen.output_layer_size if chosen.output_layer_size >= 0 else (chosen.layer_sizes or (None,))[-1]
    if size is not None and size < 1:
        key = "outputLayerSize" if chosen.output_layer_size >= 0 else "layerSizes"
        problems.append(ConfigError(f"an output layer of size {size} is not possible", where=section.location(key)))
    raise_problems(problems)
    random = Random("uniform" if chosen.uniform_init else "gaussian", chosen.init_value_scale)
    conversion = Conversion(
        training, evaluation, chosen.layer_types, size, random, chosen.need_prior, chosen.add_dropout_nodes
    )
    return chosen, conversion


def _criterion(section: Config, key: str, value: str, known: dict[str, str], problems: list[CntkError]) -> str:
    found = {name.lower(): op for name, op in known.items()}.get(value.lower())
    if found is None:
        problems.append(
            ConfigError(
                f"there is no {key} '{value}' for a DBN file{did_you_mean(value, known)}",
                where=section.location(key),
                hint=f"Accepted: {', '.join(known)}",
            )
        )
    return found or ""
