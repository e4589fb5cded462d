"""Networks and rates for a task: nothing clever, but what trains at once."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_tool_init.found import LANGUAGE_MODEL, REGRESS, Prepared, word_classes

_NORMALIZED = "FeatureMVNLayer {} :                    # each value to mean 0, variance 1"


@attrs.frozen
class Choice:
    """A network and how it is learned.

    Attributes:
        network: the lines of the section that describes it.
        rates: the lines of the SGD block about rates and minibatches.
        epochs: most sweeps over the data.
        says: what it is, in a line.
    """

    network: Sequence[str]
    rates: Sequence[str]
    epochs: int
    says: str


def choose(data: Prepared, task: str) -> Choice:
    """Return a network for data and task."""
    if data.words:
        return _classes_of_words(data)
    if data.image is not None:
        return _brainscript(data, task, *_convolutions(data.image, data.y.dim), minibatch=32)
    if data.sequential:
        return _brainscript(data, task, *_recurrent(data, task), minibatch=256 if not data.whole else 64)
    return _brainscript(data, task, *_dense(data, task), minibatch=_minibatch(data.samples))


def _minibatch(samples: int) -> int:
    """About a hundred steps in an epoch, in minibatches of 8 to 256."""
    size = 8
    while size < 256 and samples > 100 * size:
        size *= 2
    return size


def _hidden(data: Prepared) -> int:
    return max(16, min(256, 1 << (max(data.x.dim, data.y.dim) - 1).bit_length()))


def _dense(data: Prepared, task: str) -> tuple[list[str], str]:
    hidden = _hidden(data)
    # Mean and variance of sparse values would make them dense.
    first = [] if data.x.sparse else [_NORMALIZED]
    layers = [*first, f"DenseLayer {{{hidden}, activation = ReLU}} :", f"DenseLayer {{{hidden}, activation = ReLU}} :"]
    return [*layers, f"LinearLayer {{{data.y.dim}}}"], f"two hidden layers of {hidden}"


def _convolutions(image: tuple[int, int, int], classes: int) -> tuple[list[str], str]:
    side, maps, layers = min(image[:2]), 16, ["Scaled :"]
    count = 0
    while side >= 4 and count < 3:
        layers += [
            f"ConvolutionalLayer {{{maps}, (3:3), pad = true, activation = ReLU}} :",
            "MaxPoolingLayer {(2:2), stride = 2} :",
        ]
        side, maps, count = side // 2, 2 * maps, count + 1
    layers += ["DenseLayer {64, activation = ReLU} : Dropout :", f"LinearLayer {{{classes}}}"]
    return layers, f"{count} convolutions, each with a pooling, and a hidden layer"


def _recurrent(data: Prepared, task: str) -> tuple[list[str], str]:
    hidden = max(16, min(128, _hidden(data)))
    first = f"EmbeddingLayer {{{hidden}}} :" if data.x.sparse else _NORMALIZED
    last = f"LinearLayer {{{data.y.dim}}}"
    if data.whole:
        return [first, f"RecurrentLSTMLayer {{{hidden}}} :", "BS.Sequences.Last :", last], "an LSTM, and its last step"
    if task == LANGUAGE_MODEL:
        return [first, f"RecurrentLSTMLayer {{{hidden}}} :", last], f"an LSTM of {hidden}"
    both = f"Both (RecurrentLSTMLayer {{{hidden}}}, RecurrentLSTMLayer {{{hidden}, goBackwards = true}}) :"
    return [first, both, last], f"LSTMs of {hidden} in both directions"


def _brainscript(data: Prepared, task: str, layers: Sequence[str], says: str, *, minibatch: int) -> Choice:
    x, y = data.x, data.y
    dims = "(" + ":".join(map(str, data.image)) + ")" if data.image else str(x.dim)
    axis = ", dynamicAxis = labelAxis" if data.whole else ""
    lines = ["BrainScriptNetworkBuilder = {"]
    lines += ["    labelAxis = DynamicAxis ()                  # a sequence has one label"] if data.whole else []
    lines += [
        f"    {x.name} = Input {{{dims}{', sparse = true' if x.sparse else ''}}}",
        f"    {y.name} = Input {{{y.dim}{', sparse = true' if y.sparse else ''}{axis}, tag = 'label'}}",
        "",
    ]
    if data.image:
        lines += ["    Scaled (x) = x .* Constant (1/256)"]
    if any(layer.startswith("Both") for layer in layers):
        lines += ["    Both (F, G) = Parallel (F : G, Splice)"]
    lines += ["    model = Sequential (", *(f"        {layer}" for layer in layers), "    )"]
    found = f"ReconcileDynamicAxis (model ({x.name}), {y.name})" if data.whole else f"model ({x.name})"
    lines += [f"    z = {found}", "", *(f"    {line}".rstrip() for line in _criteria(data, task)), "}"]
    epochs = 10 if data.sequential else 30
    return Choice(lines, _rates(data, minibatch), epochs, says)


def _criteria(data: Prepared, task: str) -> list[str]:
    y = data.y.name
    if task == REGRESS:
        centre, spread = f"{data.centre:.6g}", f"{data.spread:.6g}"
        return [
            f"# The network finds how many standard deviations ({spread}) a value is away from the mean ({centre}).",
            f"found = z .* Constant ({spread}) + Constant ({centre})",
            f"loss = SquareError (({y} - Constant ({centre})) .* Constant (1 / {spread}), z)",
            f"difference = ReduceMean (Abs (found - {y}))",
            "",
            *_roles(data, "loss", "difference", "found"),
        ]
    return [
        f"loss = CrossEntropyWithSoftmax ({y}, z)",
        f"errors = ClassificationError ({y}, z)",
        "",
        *_roles(data, "loss", "errors", "z"),
    ]


def _roles(data: Prepared, criterion: str, evaluation: str, output: str) -> list[str]:
    return [
        f"featureNodes = ({data.x.name})",
        f"labelNodes = ({data.y.name})",
        f"criterionNodes = ({criterion})",
        f"evaluationNodes = ({evaluation})",
        f"outputNodes = ({output})",
    ]


def _rates(data: Prepared, minibatch: int) -> list[str]:
    what = f"{'steps' if data.sequential else 'samples'} that are learned from together"
    lines = [
        f"{f'minibatchSize = {minibatch}':<41}# {what}",
        "gradUpdateType = adam",
        "learningRatesPerSample = 0.002*10:0.001  # with Adam: the step of an update",
    ]
    if data.image:
        lines.append("dropoutRate = 0.3")
    if data.sequential:
        lines += ["gradientClippingWithTruncation = false", "clippingThresholdPerSample = 1"]
    return lines


def _classes_of_words(data: Prepared) -> Choice:
    """A language model with classes of words: the class of the next word, then the word in its class."""
    words = data.words
    hidden = max(16, min(200, _hidden(data)))
    classes = word_classes(words)
    network = [
        "SimpleNetworkBuilder = [",
        "    rnnType = CLASSLSTM",
        "    trainingCriterion = classCrossEntropyWithSoftmax",
        "    evalCriterion = classCrossEntropyWithSoftmax",
        f"    layerSizes = {words}:{hidden}:{hidden}:{words}   # words, an embedding, an LSTM, words",
        "    lookupTableOrder = 1",
        f"    nbrClass = {classes}",
        "    uniformInit = true",
        "]",
    ]
    rates = [
        "minibatchSize = 10                       # words of each of the sentences side by side",
        "learningRatesPerSample = 0.1",
        "momentumPerMB = 0",
        "gradientClippingWithTruncation = true",
        "clippingThresholdPerSample = 15",
    ]
    return Choice(network, rates, 10, f"an LSTM of {hidden}, with {classes} classes of words")
