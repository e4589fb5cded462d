"""SimpleNetworkBuilder: a feed-forward network from its layer sizes (cntk-inventory 3.5)."""

from __future__ import annotations

from cntk_builder_simple.check import problems_of, without_effect
from cntk_builder_simple.options import CRITERIA, SimpleOptions
from cntk_core.api import (
    BuildContext,
    CntkError,
    Config,
    FixedValue,
    Input,
    Location,
    Network,
    NetworkBuilder,
    Node,
    Parameter,
    Random,
    UnsupportedError,
    Value,
    from_cntk,
    raise_problems,
)


class SimpleNetworkBuilder(NetworkBuilder):
    """Builds feed-forward networks from the layer sizes of a ``SimpleNetworkBuilder`` section."""

    options = SimpleOptions
    requires_api = "1.0"

    def build(self, block: Value, context: BuildContext) -> Network:
        """Return the network of a ``SimpleNetworkBuilder`` section.

        Raises:
            ConfigError, OptionError, UnsupportedError, Problems: everything that is wrong with the section.
        """
        config = block.config()
        chosen: SimpleOptions = config.bind(SimpleOptions, what="SimpleNetworkBuilder")
        raise_problems(problems_of(config, chosen))
        for key in without_effect(config, chosen):
            context.trace(f"{config.location(key)}: {key} has no effect in a feed-forward network")
        return _FeedForward(config, chosen, context).build()


class _FeedForward:
    """Makes the nodes of one network, with the names of the original."""

    def __init__(self, config: Config, chosen: SimpleOptions, context: BuildContext) -> None:
        self.config = config
        self.chosen = chosen
        self.context = context
        self.network = Network(context.dtype)
        self.missing: dict[str, CntkError] = {}
        self.where = config.location("layerSizes")

    def build(self) -> Network:
        """Make the network."""
        sizes = self.chosen.layer_sizes
        features = self._input("features", sizes[0])
        self.network.mark(features, "feature")
        output = self._layers(self._normalized(features))
        labels = self._input("labels", sizes[-1])
        self.network.mark(labels, "label")
        self._criteria(labels, output)
        self._outputs(labels, output)
        raise_problems(list(self.missing.values()))
        return self.network

    # -- parts ----------------------------------------------------------------------------------------------

    def _normalized(self, features: Node) -> Node:
        if not self.chosen.apply_mean_var_norm:
            return features
        where = self.config.location("applyMeanVarNorm")
        mean = self._node("Mean", "MeanOfFeatures", features, where=where)
        deviation = self._node("InvStdDev", "InvStdOfFeatures", features, where=where)
        return self._node("PerDimMeanVarNormalization", "MVNormalizedFeatures", features, mean, deviation, where=where)

    def _layers(self, value: Node) -> Node:
        """Make all layers and return the last one, ``HLast``, which is linear."""
        hidden = len(self.chosen.layer_sizes) - 2
        for layer in range(hidden):
            value = self._hidden_layer(layer, value)
        # With one hidden layer the original calls the last product W1*H0; its tools and ours go by the names.
        previous = f"H{hidden - 1}"
        return self._linear(hidden, value, previous, "HLast")

    def _hidden_layer(self, layer: int, value: Node) -> Node:
        previous = f"H{layer}" if layer else "features"
        name = f"H{layer + 1}"
        types = self.chosen.layer_types
        kind = types[min(layer, len(types) - 1)].lower()
        if kind in ("none", ""):
            value = self._linear(layer, value, previous, name)
        else:
            op = {"sigmoid": "Sigmoid", "rectifiedlinear": "RectifiedLinear", "tanh": "Tanh"}[kind]
            linear = self._linear(layer, value, previous, f"W{layer}*{previous}+B{layer}")
            value = self._node(op, name, linear, where=self.config.location("layerTypes"))
        if self.chosen.add_dropout_nodes:
            value = self._node("Dropout", f"Drop{name}", value, where=self.config.location("addDropoutNodes"))
        return value

    def _linear(self, layer: int, value: Node, previous: str, name: str) -> Node:
        """Make ``W * value + B``."""
        inputs, outputs = self.chosen.layer_sizes[layer : layer + 2]
        kind = "uniform" if self.chosen.uniform_init else "gaussian"
        weights = self._parameter(f"W{layer}", (outputs, inputs), Random(kind, self.chosen.init_value_scale))
        bias = self._parameter(f"B{layer}", (outputs, 1), FixedValue(0.0))
        product = self._node("Times", f"W{layer}*{previous}", weights, value)
        return self._node("Plus", name, product, bias)

    def _criteria(self, labels: Node, output: Node) -> None:
        trained = CRITERIA[self.chosen.training_criterion.lower()]
        criterion = self._node(trained, trained, labels, output, where=self.config.location("trainingCriterion"))
        self.network.mark(criterion, "criterion")
        evaluated = CRITERIA.get(self.chosen.eval_criterion.lower())
        if evaluated == trained:
            self.network.mark(criterion, "evaluation")
            return
        where = self.config.location("evalCriterion")
        op, name = (evaluated, evaluated) if evaluated else ("ClassificationError", "EvalClassificationError")
        self.network.mark(self._node(op, name, labels, output, where=where), "evaluation")

    def _outputs(self, labels: Node, output: Node) -> None:
        result = output
        if self.chosen.need_prior:
            where = self.config.location("needPrior")
            prior = self._node("Mean", "Prior", labels, where=where)
            logarithm = self._node("Log", "LogOfPrior", prior, where=where)
            result = self._node("Minus", "ScaledLogLikelihood", output, logarithm, where=where)
        self.network.mark(result, "output")
        self._node("Softmax", "PosteriorProb", output)

    # -- nodes ----------------------------------------------------------------------------------------------

    def _input(self, name: str, size: int) -> Node:
        return self.network.add(Input.make(name, (size,), where=self.where))

    def _parameter(self, name: str, dims: tuple[int, int], first: Random | FixedValue) -> Node:
        return self.network.add(Parameter.make(name, from_cntk(dims), first, where=self.where))

    def _node(self, op_name: str, name: str, *inputs: Node, where: Location | None = None) -> Node:
        where = where or self.where
        op = self.context.find_op("", op_name)
        if op is None:
            self.missing[op_name] = UnsupportedError(f"the operation '{op_name}' is not there yet", where=where)
            return inputs[0]
        return self.network.add(Node(name, op, list(inputs), op.attributes(), where))
