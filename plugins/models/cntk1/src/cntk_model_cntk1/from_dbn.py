"""Networks of DBN files, with the node names of the original."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Network, NetworkError, Node, Parameter, core_ops, from_cntk
from cntk_core.api.builders import FixedValue, Random
from cntk_model_cntk1.dbn_file import LAST_LAYER, LINEAR_LAYER, Dbn

HIDDEN_TYPES = {"sigmoid": "Sigmoid", "rectifiedlinear": "RectifiedLinear", "tanh": "Tanh", "none": "", "": ""}
"""Operations of ``layerTypes``; an empty one is no operation."""


@attrs.frozen
class Conversion:
    """What a recipe adds to a DBN file.

    Attributes:
        training, evaluation: operations of the criteria.
        layer_types: non-linearities of the layers that have one, by layer; the last counts on.
        output_size: size of the output layer that a network without one gets.
        random: first values of that layer.
        need_prior: give a network without an output layer a prior, to be computed before training.
        dropout: a Dropout behind each hidden layer.
    """

    training: str = "CrossEntropyWithSoftmax"
    evaluation: str = "ClassificationError"
    layer_types: tuple[str, ...] = ("Sigmoid",)
    output_size: int | None = None
    random: Random = attrs.field(factory=Random)
    need_prior: bool = False
    dropout: bool = False


def network_of(dbn: Dbn, conversion: Conversion, dtype: Any = np.float32) -> Network:
    """Return the network of a DBN file.

    The parameters of a new output layer, if there is one, have initializers and no values yet.

    Raises:
        NetworkError: the file has no output layer and the recipe gives no size for one.
    """
    if not dbn.complete and conversion.output_size is None:
        raise NetworkError(
            "the DBN file has no output layer, and the recipe does not say how large it must be",
            hint="Set outputLayerSize.",
        )
    return _Made(dbn, conversion, dtype).make()


class _Made:
    """One network while it is made."""

    def __init__(self, dbn: Dbn, conversion: Conversion, dtype: Any) -> None:
        self.dbn = dbn
        self.conversion = conversion
        self.network = Network(dtype)
        self.ops = core_ops()

    def make(self) -> Network:
        value = self._features()
        for number, layer in enumerate(self.dbn.layers):
            weights = self._parameter(f"W{number}", layer.weights)
            bias = self._parameter(f"B{number}", layer.bias[:, None])
            last = layer.kind == LAST_LAYER
            value = self._linear(number, weights, bias, value, "HLast" if last else "")
            if not last and layer.kind != LINEAR_LAYER:
                value = self._hidden(number, value)
        size = len(self.dbn.layers[-1].bias)
        if not self.dbn.complete:
            assert self.conversion.output_size is not None
            value = self._output_layer(value, size, self.conversion.output_size)
            size = self.conversion.output_size
        labels = self.network.add(Input.make("labels", (size,)))
        self.network.mark(labels, "label")
        self._criteria(labels, value)
        self._output(labels, value)
        return self.network

    def _features(self) -> Node:
        """Make the input and its normalization; statistics of one frame count for each frame of the input."""
        size = self.dbn.layers[0].weights.shape[1]
        frames = size // len(self.dbn.mean)
        features = self.network.add(Input.make("features", (size,)))
        self.network.mark(features, "feature")
        mean = self._node("Mean", "MeanOfFeatures", features)
        mean.value = np.tile(self.dbn.mean, frames).astype(self.network.dtype)
        inverse = self._node("InvStdDev", "InvStdOfFeatures", features)
        inverse.value = np.tile(1 / self.dbn.deviation.astype(np.float64), frames).astype(self.network.dtype)
        return self._node("PerDimMeanVarNormalization", "MVNormalizedFeatures", features, mean, inverse)

    def _parameter(self, name: str, matrix: NDArray[Any]) -> Node:
        """Make a parameter with the values of a matrix in CNTK's order."""
        value = np.ascontiguousarray(matrix.T.astype(self.network.dtype))
        return self.network.add(Parameter.make(name, value.shape, value=value))

    def _linear(self, number: int, weights: Node, bias: Node, value: Node, name: str) -> Node:
        product = f"W{number}*H{number}"
        times = self._node("Times", product, weights, value)
        return self._node("Plus", name or f"{product}+B{number}", times, bias)

    def _hidden(self, number: int, value: Node) -> Node:
        types = self.conversion.layer_types
        kind = HIDDEN_TYPES[types[min(number, len(types) - 1)].lower()]
        name = f"H{number + 1}"
        if kind:
            value = self._node(kind, name, value)
        else:
            self.network.rename(value, name)
        return self._node("Dropout", f"Drop{name}", value) if self.conversion.dropout else value

    def _output_layer(self, value: Node, inputs: int, outputs: int) -> Node:
        number = len(self.dbn.layers)
        shape = from_cntk((outputs, inputs))
        weights = self.network.add(Parameter.make(f"W{number}", shape, self.conversion.random))
        bias = self.network.add(Parameter.make(f"B{number}", from_cntk((outputs, 1)), FixedValue(0.0)))
        return self._linear(number, weights, bias, value, "HLast")

    def _criteria(self, labels: Node, output: Node) -> None:
        conversion = self.conversion
        result = self._node(conversion.training, conversion.training, labels, output)
        self.network.mark(result, "criterion")
        if conversion.evaluation != conversion.training:
            count = conversion.evaluation == "ClassificationError"
            name = "EvalClassificationError" if count else conversion.evaluation
            result = self._node(conversion.evaluation, name, labels, output)
        self.network.mark(result, "evaluation")

    def _output(self, labels: Node, output: Node) -> None:
        if self.dbn.prior is not None or (self.conversion.need_prior and not self.dbn.complete):
            prior = self._node("Mean", "Prior", labels)
            if self.dbn.prior is not None:
                prior.value = self.dbn.prior.astype(self.network.dtype)
            logarithm = self._node("Log", "LogOfPrior", prior)
            output = self._node("Minus", "ScaledLogLikelihood", output, logarithm)
        self.network.mark(output, "output")

    def _node(self, op_name: str, name: str, *inputs: Node) -> Node:
        op = self.ops.find("", op_name)
        assert op is not None, op_name
        return self.network.add(Node(name, op, list(inputs), op.attributes()))
