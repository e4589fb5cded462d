"""The workloads: what every candidate trains, with the same first values and the same data.

A step is forward, backward and a momentum update in float32, data in memory. Losses are sums over the minibatch; the
momentum is CNTK's unit-gain form ``s = m s + (1 - m) lr g; w -= s``. Where words are embedded there is none: with it
CNTK lets rows of words that do not occur rest, its peers do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

MOMENTUM = 0.9
RATE = 0.002

CERTAINTY = 200
"""How much larger the last weights of a net are that has learned, than those at the start."""


class FeedForward(NamedTuple):
    """A feed-forward net: ``sizes`` from input to output, sigmoid between, softmax cross entropy at the end.

    Attributes:
        name: of the workload.
        sizes: see above.
        minibatch: samples.
        steps: of one round.
        pixels: inputs are bytes as pictures have them, four of five 0. Nothing scales them, so that the sigmoids
            saturate, and their gradients are too small for all digits of single precision.
        late: the net is one that has learned: it answers all classes with certainty, and gradients are as small.
    """

    name: str
    sizes: tuple[int, ...]
    minibatch: int
    steps: int
    pixels: bool = False
    late: bool = False

    ours = "ours"
    momentum = MOMENTUM
    peers = ("torch_eager", "torch_compile", "jax_jit", "jax_host_fed")

    @property
    def batches(self) -> int:
        """How many different minibatches are cycled through: about 16 MB, at least 2."""
        return max(2, min(64, 4_000_000 // (self.minibatch * self.sizes[0])))

    def parameters(self) -> dict[str, np.ndarray]:
        """First values by name: ``W0`` (in, out), ``b0`` (out,), ..."""
        rng = np.random.default_rng(1)
        values = {}
        for layer, (rows, columns) in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            scale = np.float32(np.sqrt(6.0 / (rows + columns)))
            weights = rng.random((rows, columns), dtype=np.float32)
            weights -= np.float32(0.5)
            weights *= 2 * scale
            values[f"W{layer}"] = weights
            values[f"b{layer}"] = np.zeros(columns, np.float32)
        if self.late:
            values[f"W{len(self.sizes) - 2}"] *= np.float32(CERTAINTY)
        return values

    def data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Minibatches: inputs ``(minibatch, in)`` and class indices ``(minibatch,)``."""
        rng = np.random.default_rng(2)
        return [self._minibatch(rng) for _ in range(self.batches)]

    def _minibatch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        inputs = rng.random((self.minibatch, self.sizes[0]), dtype=np.float32)
        if self.pixels:
            inputs = np.floor(256 * inputs) * (np.arange(self.sizes[0]) % 5 == 0).astype(np.float32)
        if self.late:
            return inputs, self._answers(inputs)
        return inputs, rng.integers(0, self.sizes[-1], self.minibatch)

    def _answers(self, inputs: np.ndarray) -> np.ndarray:
        """The classes that the net itself gives."""
        values, rows = self.parameters(), inputs
        for layer in range(len(self.sizes) - 2):
            rows = 1 / (1 + np.exp(-(rows @ values[f"W{layer}"] + values[f"b{layer}"])))
        return (rows @ values[f"W{len(self.sizes) - 2}"]).argmax(axis=1)


class OwnFeedForward(FeedForward):
    """The same through ``import cntk``, in a loop of one's own, beside the loops that others write."""

    ours = "own_loop"
    peers = ("torch_eager", "torch_compile", "keras_jax")


class Recurrent(NamedTuple):
    """LSTM layers over ragged sequences, softmax cross entropy for every frame.

    Attributes:
        name: of the workload.
        inputs: dimension of the features, or the number of words if there is an embedding.
        embedding: dimension of the embedding of words; 0 for dense features.
        layers, cells, outputs: of the LSTM; where ``outputs`` differs from ``cells``, the result is projected.
        labels: classes.
        lengths: shortest and longest sequence, both included.
        sequences: of a minibatch; 0 for as many as give about ``words`` frames.
        words: see there.
        batches: how many different minibatches are cycled through.
        steps: of one round.
    """

    name: str
    inputs: int
    embedding: int
    layers: int
    cells: int
    outputs: int
    labels: int
    lengths: tuple[int, int]
    sequences: int
    words: int
    batches: int
    steps: int

    ours = "ours_recurrent"
    peers = ("torch_padded",)

    @property
    def momentum(self) -> float:
        """Of the update."""
        return 0.0 if self.embedding else MOMENTUM

    @property
    def widths(self) -> list[int]:
        """Dimension of what each layer reads."""
        return [self.embedding or self.inputs, *[self.outputs] * (self.layers - 1)]

    def parameters(self) -> dict[str, np.ndarray]:
        """First values by name.

        ``E`` (words, embedding); for each layer ``W0`` (in, 4 cells), ``H0`` (outputs, 4 cells), ``B0`` (4 cells,) and
        ``P0`` (cells, outputs), gates in the order input, candidate, forget, output; ``V`` (outputs, labels), ``v``.
        """
        rng = np.random.default_rng(1)

        def weights(rows: int, columns: int) -> np.ndarray:
            return (rng.random((rows, columns), dtype=np.float32) - np.float32(0.5)) * np.float32(0.2)

        values = {"E": weights(self.inputs, self.embedding)} if self.embedding else {}
        for layer, width in enumerate(self.widths):
            values[f"W{layer}"] = weights(width, 4 * self.cells)
            values[f"H{layer}"] = weights(self.outputs, 4 * self.cells)
            values[f"B{layer}"] = np.zeros(4 * self.cells, np.float32)
            if self.outputs != self.cells:
                values[f"P{layer}"] = weights(self.cells, self.outputs)
        values["V"] = weights(self.outputs, self.labels)
        values["v"] = np.zeros(self.labels, np.float32)
        return values

    def data(self) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Minibatches: of each sequence its features ``(frames, inputs)`` or words ``(frames,)``, and its classes."""
        rng = np.random.default_rng(2)
        return [[self._sequence(rng, length) for length in self._lengths(rng)] for _ in range(self.batches)]

    def _lengths(self, rng: np.random.Generator) -> list[int]:
        shortest, longest = self.lengths
        if self.sequences:
            return [int(length) for length in np.linspace(shortest, longest, self.sequences).round()]
        found: list[int] = []
        while sum(found) + (shortest + longest) / 4 < self.words:
            found.append(int(rng.integers(shortest, longest + 1)))
        return found

    def _sequence(self, rng: np.random.Generator, length: int) -> tuple[np.ndarray, np.ndarray]:
        if self.embedding:
            inputs = rng.integers(0, self.inputs, length)
        else:
            inputs = rng.standard_normal((length, self.inputs), dtype=np.float32)
        return inputs, rng.integers(0, self.labels, length)


class OwnRecurrent(Recurrent):
    """The same through ``import cntk``, in a loop of one's own."""

    ours = "own_loop"


class Cell(NamedTuple):
    """A recurrent cell that no library has, over sequences of one length; softmax cross entropy for every frame.

    Its gates are coupled, it sees what it gave one, two and four frames before, and attends to these inside the loop::

        e(k) = score tanh (Wk h(t-k) + Wq x(t))         k = 1, 2, 4
        m    = sum of softmax (e) over k, times h(t-k)
        u    = sigmoid, c = tanh of the halves of  Wx x(t) + Wm m + bias
        h(t) = u c + (1 - u) h(t-1)                     before the first frame it is 0.1

    Attributes:
        name: of the workload.
        inputs, cells, keys, labels: dimensions of ``x``, of ``h``, of what is compared, of the classes.
        frames, sequences: of a minibatch.
        steps: of one round.
    """

    name: str
    inputs: int
    cells: int
    keys: int
    labels: int
    frames: int
    sequences: int
    steps: int

    ours = "ours_cell"
    peers = ("torch_cell", "torch_compiled_cell", "jax_scan")
    momentum = MOMENTUM
    batches = 4
    delays = (1, 2, 4)

    def parameters(self) -> dict[str, np.ndarray]:
        """First values by the names above; ``Wz`` and ``bz`` make classes of ``h``."""
        rng = np.random.default_rng(1)
        shapes = {
            "Wx": (self.inputs, 2 * self.cells),
            "Wq": (self.inputs, self.keys),
            "Wm": (self.cells, 2 * self.cells),
            "Wk": (self.cells, self.keys),
            "score": (self.keys, 1),
            "Wz": (self.cells, self.labels),
        }
        values = {
            name: (rng.random(shape, dtype=np.float32) - np.float32(0.5)) * np.float32(0.2)
            for name, shape in shapes.items()
        }
        return values | {"bias": np.zeros(2 * self.cells, np.float32), "bz": np.zeros(self.labels, np.float32)}

    def data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Minibatches: features ``(frames, sequences, inputs)`` and classes ``(frames, sequences)``."""
        rng = np.random.default_rng(2)
        shape = (self.frames, self.sequences)
        return [
            (rng.standard_normal((*shape, self.inputs), dtype=np.float32), rng.integers(0, self.labels, shape))
            for _ in range(self.batches)
        ]


class Convolutional(NamedTuple):
    """A network of convolutions over images, of a recipe in ``recipes``; its parameters have the names of the recipe.

    Attributes:
        name: of the workload.
        recipe: without its ending.
        image: channels, height and width.
        minibatch: images.
        steps: of one round.
        rate: of learning; a deep network amplifies the rounding errors of a few large steps until nothing agrees.
    """

    name: str
    recipe: str
    image: tuple[int, int, int]
    minibatch: int
    steps: int
    rate: float = RATE

    ours = "ours_convolutional"
    peers = ("torch_channels_last", "torch_compiled_images", "jax_images", "jax_images_host_fed")
    momentum = MOMENTUM
    classes = 10
    batches = 4

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters: convolutions ``(maps, channels, height, width)``, dense ``(*in, out)``."""
        return {"lenet": _lenet_shapes, "cifar_convnet": _convnet_shapes, "resnet20": _resnet_shapes}[self.recipe]()

    def parameters(self) -> dict[str, np.ndarray]:
        """First values by name."""
        rng = np.random.default_rng(1)
        values = {}
        for name, shape in self.shapes().items():
            if name.endswith("W"):
                fan = np.prod(shape[1:] if len(shape) == 4 and "conv" in name else shape[:-1])
                values[name] = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / fan))
            else:
                values[name] = np.full(shape, name.endswith("scale"), np.float32)
        return values

    def data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Minibatches: images ``(minibatch, channels, height, width)`` and class indices ``(minibatch,)``."""
        rng = np.random.default_rng(2)
        shape = (self.minibatch, *self.image)
        return [
            (rng.standard_normal(shape, dtype=np.float32), rng.integers(0, self.classes, self.minibatch))
            for _ in range(self.batches)
        ]


class OwnConvolutional(Convolutional):
    """The same through ``import cntk``, in a loop of one's own, beside the loops that others write."""

    ours = "own_loop"
    peers = ("torch_channels_last", "torch_compiled_images", "keras_jax")


def _lenet_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"conv1.W": (16, 1, 5, 5), "conv1.b": (16,)}
    shapes |= {"conv2.W": (32, 16, 5, 5), "conv2.b": (32,)}
    return shapes | {"hidden.W": (32, 7, 7, 128), "hidden.b": (128,), "last.W": (128, 10), "last.b": (10,)}


def _convnet_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, channels in enumerate((3, 64, 64, 64)):
        shapes |= {f"conv[{layer}].W": (64, channels, 3, 3), f"conv[{layer}].b": (64,)}
    return shapes | {"hidden.W": (64, 8, 8, 256), "hidden.b": (256,), "last.W": (256, 10), "last.b": (10,)}


def resnet_convolutions() -> Iterator[tuple[str, int, int, int, int]]:
    """The convolutions of ResNet-20: name, channels, maps, size and stride."""
    yield "first", 3, 16, 3, 1
    channels = 16
    for block in range(1, 10):
        maps, stride = (channels * 2, 2) if block in (4, 7) else (channels, 1)
        yield f"block{block}.inner", channels, maps, 3, stride
        yield f"block{block}.outer", maps, maps, 3, 1
        if stride > 1:
            yield f"block{block}.shortcut", channels, maps, 1, stride
        channels = maps


def _resnet_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, channels, maps, size, _ in resnet_convolutions():
        shapes[f"{name}.conv.W"] = (maps, channels, size, size)
        shapes |= {f"{name}.norm.scale": (maps,), f"{name}.norm.bias": (maps,)}
    return shapes | {"last.W": (64, 1, 1, 10), "last.b": (10,)}


class RuleUpdate(NamedTuple):
    """One update of a single parameter by a learner's rule, with a gradient that is given.

    Attributes:
        name: of the workload.
        rule: see ``candidates/ours_update.py``.
        streams: how often one element is read or written in an update, in all passes.
        in_torch: whether PyTorch has a fused optimiser for it.
        elements: of the parameter.
        steps: of one round.
    """

    name: str
    rule: str
    streams: int
    in_torch: bool = False
    elements: int = 10_000_000
    steps: int = 4

    ours = "ours_update"

    @property
    def peers(self) -> tuple[str, ...]:
        """PyTorch where it can."""
        return ("torch_update",) if self.in_torch else ()

    def parameters(self) -> dict[str, np.ndarray]:
        """The first value."""
        return {"W": np.random.default_rng(1).standard_normal(self.elements, dtype=np.float32)}

    def gradient(self) -> np.ndarray:
        """The gradient of every step."""
        return np.random.default_rng(2).standard_normal(self.elements, dtype=np.float32)


Workload = FeedForward | Recurrent | Cell | Convolutional | RuleUpdate

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        FeedForward("W1a", (784, 256, 10), 32, 1000),
        OwnFeedForward("W1a-own", (784, 256, 10), 32, 1000),
        FeedForward("W1b", (784, 200, 10), 32, 1000),
        FeedForward("W1s", (784, 256, 10), 32, 1000, pixels=True),
        FeedForward("W1l", (784, 256, 10), 32, 1000, late=True),
        FeedForward("W2a", (363, 512, 512, 132), 256, 60),
        FeedForward("W2b", (363, 512, 512, 132), 1024, 20),
        FeedForward("W2big", (429, *[2048] * 7, 9304), 1024, 1),
        Recurrent("W3a", 363, 0, 3, 512, 512, 132, (50, 600), 16, 0, 1, 1),
        Recurrent("W3b", 363, 0, 3, 1024, 256, 132, (50, 300), 16, 0, 1, 1),
        Recurrent("W3e", 363, 0, 3, 512, 512, 132, (200, 200), 16, 0, 1, 1),
        Recurrent("W4", 943, 150, 1, 300, 300, 127, (5, 30), 0, 76, 64, 64),
        OwnRecurrent("W4-own", 943, 150, 1, 300, 300, 127, (5, 30), 0, 76, 64, 64),
        Cell("W7", 100, 256, 64, 100, 100, 16, 2),
        Convolutional("W5a", "lenet", (1, 28, 28), 64, 20),
        OwnConvolutional("W5a-own", "lenet", (1, 28, 28), 64, 20),
        Convolutional("W5b", "cifar_convnet", (3, 32, 32), 64, 2),
        Convolutional("W5c", "resnet20", (3, 32, 32), 128, 2, rate=2e-4),
        FeedForward("W6", (26752, 2048, 2048, 2048, 26752), 64, 3),
        # Streams: the value, the gradient and the slots are read, all but the gradient are written; for a mean over the
        # parameter the gradient and the slots are read once more.
        RuleUpdate("U-momentum", "momentum", 5, in_torch=True),
        RuleUpdate("U-nag", "nag", 5, in_torch=True),
        RuleUpdate("U-adagrad", "adagrad", 5, in_torch=True),
        RuleUpdate("U-adagrad-mean", "adagrad-mean", 5 + 2),
        RuleUpdate("U-rmsprop", "rmsprop", 9),
        RuleUpdate("U-rmsprop-mean", "rmsprop-mean", 9 + 4),
        RuleUpdate("U-fsadagrad", "fsadagrad", 7),
        RuleUpdate("U-adam", "adam", 7, in_torch=True),
        RuleUpdate("U-adamw", "adamw", 7, in_torch=True),
        RuleUpdate("U-adamax", "adamax", 7),
        RuleUpdate("U-adadelta", "adadelta", 7),
    )
}
