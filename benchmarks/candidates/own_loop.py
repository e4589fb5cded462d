"""A loop of one's own over minibatches, as programs have it: ``import cntk``, its operations and its Trainer."""

from __future__ import annotations

import numpy as np
from workloads import RATE, Convolutional, FeedForward, Recurrent

FIRST_STATE = 0.1


class Candidate:
    """Trains the network of the workload with ``Trainer.train_minibatch``, one minibatch of arrays after the other.

    How many threads compute says the environment, which is as programs have it, too.
    """

    def __init__(self, workload: FeedForward | Recurrent | Convolutional, threads: int) -> None:
        import cntk as C

        self.cntk = C
        first = workload.parameters()
        self.values = {name: C.parameter(value.shape, init=value, name=name) for name, value in first.items()}
        if isinstance(workload, Recurrent):
            z, features, labels, self.data = self._tagger(workload)
        elif isinstance(workload, Convolutional):
            z, features, labels, self.data = self._lenet(workload)
        else:
            z, features, labels, self.data = self._dense(workload)
        rate = C.learning_parameter_schedule_per_sample(getattr(workload, "rate", RATE))
        used = list(self.values.values())
        learner = (
            C.momentum_sgd(used, rate, C.momentum_schedule(workload.momentum), unit_gain=True)
            if workload.momentum
            else C.sgd(used, rate)
        )
        self.features, self.labels, self.done = features, labels, 0
        self.trainer = C.Trainer(z, C.cross_entropy_with_softmax(z, labels), [learner])

    def _dense(self, workload: FeedForward):
        C = self.cntk
        features, labels = C.input_variable(workload.sizes[0]), C.input_variable(workload.sizes[-1])
        z, last = features, len(workload.sizes) - 2
        for layer in range(last + 1):
            z = C.times(z, self.values[f"W{layer}"]) + self.values[f"b{layer}"]
            z = C.sigmoid(z) if layer < last else z
        return z, features, labels, [(x, _one_hot(y, workload.sizes[-1])) for x, y in workload.data()]

    def _lenet(self, workload: Convolutional):
        C, values = self.cntk, self.values
        features, labels = C.input_variable(workload.image), C.input_variable(workload.classes)
        z = features
        for name in ("conv1", "conv2"):
            z = C.convolution(values[f"{name}.W"], z, auto_padding=[False, True, True])
            z = C.relu(z + C.reshape(values[f"{name}.b"], (-1, 1, 1)))
            z = C.pooling(z, C.MAX_POOLING, (2, 2), strides=(2, 2))
        z = C.relu(C.times(z, values["hidden.W"], output_rank=1) + values["hidden.b"])
        z = C.times(z, values["last.W"]) + values["last.b"]
        return z, features, labels, [(x, _one_hot(y, workload.classes)) for x, y in workload.data()]

    def _tagger(self, workload: Recurrent):
        C, values = self.cntk, self.values
        features = C.sequence.input_variable(workload.inputs, is_sparse=True)
        labels = C.sequence.input_variable(workload.labels)
        cell = C.layers.LSTM(workload.cells)
        of_cell = {"b": values["B0"], "W": values["W0"], "H": values["H0"]}
        cell = cell.clone("share", {each: of_cell[each.name] for each in cell.parameters})
        h = C.layers.Recurrence(cell, initial_state=FIRST_STATE)(C.times(features, values["E"]))
        z = C.times(h, values["V"]) + values["v"]
        sequences = [
            (
                C.Value.one_hot([words.tolist() for words, _ in each], workload.inputs),
                [_one_hot(classes, workload.labels) for _, classes in each],
            )
            for each in workload.data()
        ]
        return z, features, labels, sequences

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        trainer, features, labels = self.trainer, self.features, self.labels
        for _ in range(count):
            x, y = self.data[self.done % len(self.data)]
            self.done += 1
            trainer.train_minibatch({features: x, labels: y})
        return float(trainer.previous_minibatch_loss_average * trainer.previous_minibatch_sample_count)

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {name: np.array(parameter.value) for name, parameter in self.values.items()}


def _one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)[classes]
