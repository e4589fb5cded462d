"""Estimator: fit, evaluate and predict for a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Input, Network, NetworkError, Node, UsageError
from cntk_core.api.training import LearnerSettings, Model, Trainer
from cntk_fit.callbacks import Callback, Callbacks, Fitting
from cntk_fit.encoding import Encoding
from cntk_fit.fitting import FitLoop, Source, evaluated, shown
from cntk_fit.history import History
from cntk_fit.progress import Bar
from cntk_fit.resuming import Keeper, packed, unpack
from cntk_fit.rows import Rows
from cntk_fit.stopping import EarlyStopping
from cntk_fit.taking import WEIGHTS, Stream, Wanted, is_stream, take_rows
from cntk_fit.weighting import ClassWeight, Weighted, class_weights, weigh, with_weights

EVALUATION_SIZE = 1024
"""Rows of a minibatch where nothing is learned."""


class Estimator:
    """Trains a network on data as programs have them, and computes what it says.

    Data are arrays, SciPy's sparse matrices, tables (pandas, polars, Arrow, Parquet files, data sets of Hugging Face),
    lists of sequences, or minibatches from iterators and loaders; ``docs/i-have-arrays.md`` shows each. The network
    has the parameters: what else holds it sees what is learned. An estimator can be copied and pickled, with its
    network and the states of its learners.

    Args:
        network: a network, a :class:`~cntk_core.model.Model`, or a Function of ``import cntk``.
        criterion: what is minimised: a node, its name, or None for the first that the network marks; of a Function, the
            Function that is the loss.
        evaluations: what is counted beside it; by default what the network marks.
        learner: the name of a learner plugin, or settings, one or several.
        rate: learning rate of a learner that is given by name, for the mean gradient of a minibatch.
        columns: of tables, by input: ``{"features": ["height", "width"], "labels": "species"}``.
        engine: name of the engine; ``auto`` is the best one here.
        settings: keys of the engine: ``numCPUThreads=1``.
        op_settings: numbers that operations ask for: ``{"dropoutRate": 0.5}``.
        seed: of parameters without values, of random streams, and of the order of rows.

    Attributes:
        encoding: names of classes and columns, as the data of the first fit have shown them.

    Raises:
        NetworkError: the network has no such node, or nothing to learn.
    """

    def __init__(
        self,
        network: Any,
        criterion: Any = None,
        *,
        evaluations: Sequence[Any] | None = None,
        learner: str | LearnerSettings | Sequence[LearnerSettings] = "adam",
        rate: float = 0.001,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        engine: str = "auto",
        settings: str = "",
        op_settings: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        if hasattr(network, "_core_network_"):
            network, criterion, evaluations = network._core_network_(criterion, evaluations or ())
        self._given = {"engine": engine, "settings": settings, "op_settings": op_settings, "seed": seed}
        if isinstance(network, Model):
            network = network.network
        if not isinstance(network, Network):
            raise NetworkError(
                f"{type(network).__name__} is no network",
                hint="Give a network, such as graph.finish() returns, a Model, or a Function of import cntk.",
            )
        learners = LearnerSettings(learner, rate, mean=True) if isinstance(learner, str) else learner
        self._learners = learners
        self._evaluations = evaluations
        self._columns = dict(columns or {})
        self._seed = seed
        self.encoding = Encoding()
        self.trainer = self._made(network, criterion, evaluations)
        self._criterion = self._criterion_node(criterion)
        self._weighted: tuple[Weighted, Trainer] | None = None

    def _made(self, network: Network, criterion: Any, evaluations: Sequence[Any] | None) -> Trainer:
        given: dict[str, Any] = self._given
        return Trainer(network, criterion, self._learners, evaluations=evaluations, padded=False, **given)

    def _criterion_node(self, criterion: Any) -> Node:
        if isinstance(criterion, str):
            return self.network[criterion]
        return getattr(criterion, "node", criterion) or self.network.roots["criterion"][0]

    @property
    def network(self) -> Network:
        """What is trained."""
        return self.trainer.model.network

    @property
    def model(self) -> Model:
        """The model, which evaluates anything, writes files and goes into other programs."""
        return self.trainer.model

    @property
    def classes(self) -> Mapping[str, Sequence[Any]]:
        """Names of classes in the order of their numbers, by input in lower case, where the data gave names."""
        return self.encoding.labels

    # -- learning -----------------------------------------------------------------------------------------

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int = 1,
        minibatch_size: int = 32,
        validation: Any = None,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        shuffle: bool = True,
        early_stopping: EarlyStopping | None = None,
        callbacks: Sequence[Callback | Callable[[Fitting], Any]] = (),
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 0,
        resume: bool = True,
    ) -> History:
        """Learn. Another call goes on with what was learned, and with the state of the learners.

        Args:
            x: the data of the inputs that are features; or of all inputs, as a mapping, a table, or minibatches.
            y: the data of labels; or the name of their column in the table ``x``.
            epochs: how often to go through the data.
            minibatch_size: rows of a minibatch; a row is a sample or a sequence. Loaders have sizes of their own.
            validation: a share of the rows, such as 0.1, drawn by the seed (with ``shuffle=False`` the last ones); or
                data: ``(x, y)``, ``(x, y, weights)``, a mapping, a table, a loader.
            sample_weight: of each row, a factor on its criterion; or a list with those of each step of the sequences.
            class_weight: factors by class, or ``balanced``.
            shuffle: learn rows in another order in each epoch.
            early_stopping: end where it gets no better.
            callbacks: :class:`~cntk_fit.callbacks.Callback`; or functions that get a
                :class:`~cntk_fit.callbacks.Fitting` after each epoch.
            progress: show a bar; None: on a terminal and in a notebook.
            checkpoint: a folder. A fit that was interrupted goes on from there, to the same bytes.
            checkpoint_every: save after so many minibatches, too, not only at the end of each epoch.
            resume: go on from what is in the folder; otherwise begin anew.

        Raises:
            Problems, DataError: all that is wrong with the data.
            UsageError: an argument makes no sense.
            TrainingError: the criterion is not a number.
            CheckpointError: the folder has the checkpoint of another fit, or a damaged one.
        """
        _check_numbers(epochs=epochs, minibatch_size=minibatch_size, checkpoint_every=checkpoint_every)
        encoding = self.encoding.copy()
        data, held_out = self._split(
            self._source(x, y, sample_weight, minibatch_size, encoding), validation, shuffle, minibatch_size, encoding
        )
        if class_weight is not None:
            data = self._by_class(data, class_weight, encoding)
        weighted = any(map(_has_weights, (data, held_out)))
        trainer = self._trainer(weighted=weighted)
        self.encoding = encoding
        source = self._ready(data, weighted=weighted)
        bars = [] if progress is False else [Bar(_minibatches(source, minibatch_size), always=progress is True)]
        settings = {"minibatch_size": minibatch_size, "shuffle": shuffle, "weighted": weighted}
        loop = FitLoop(
            trainer,
            source,
            None if held_out is None else self._ready(held_out, weighted=weighted),
            epochs,
            minibatch_size,
            max(minibatch_size, EVALUATION_SIZE),
            shuffle,
            Callbacks([*callbacks, *bars]),
            early_stopping,
            None if checkpoint is None else self._keeper(Path(checkpoint), checkpoint_every, source, settings),
            self._names(),
        )
        return loop.run(resume=resume)

    def _keeper(self, folder: Path, every: int, source: Source, settings: Mapping[str, Any]) -> Keeper:
        """Return what saves, and knows this fit from others."""
        rows = len(source) if isinstance(source, Rows) else None
        return Keeper(folder, every, {"rows": rows, "seed": self._seed, **settings})

    def evaluate(
        self, x: Any, y: Any = None, *, sample_weight: Any = None, minibatch_size: int = EVALUATION_SIZE
    ) -> dict[str, float]:
        """Return the criterion and the evaluations over data, averages over all samples, by name.

        Args:
            x, y: as of :meth:`fit`.
            sample_weight: of each row, a factor on its criterion.
            minibatch_size: rows that are computed at once.

        Raises:
            Problems, DataError: all that is wrong with the data.
        """
        _check_numbers(minibatch_size=minibatch_size)
        data = self._source(x, y, sample_weight, minibatch_size, self.encoding.copy())
        weighted = _has_weights(data)
        trainer = self._trainer(weighted=weighted)
        return shown(evaluated(trainer, self._ready(data, weighted=weighted), minibatch_size), self._names())

    # -- asking -------------------------------------------------------------------------------------------

    def predict(self, x: Any, outputs: str | Sequence[str] = (), *, minibatch_size: int = EVALUATION_SIZE) -> Any:
        """Return what the network says, row by row in the order given.

        Args:
            x: the data of the inputs that the outputs need.
            outputs: names of nodes; by default the network's outputs.
            minibatch_size: rows that are computed at once.

        Returns:
            Of one output an array ``(rows, *shape)``, or, where rows are sequences, a list of arrays
            ``(steps, *shape)``. Of several a dictionary of these.

        Raises:
            Problems, DataError: all that is wrong with the data.
            NetworkError: there is no such node.
        """
        _check_numbers(minibatch_size=minibatch_size)
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        nodes = [self.network[name] for name in names] or self._outputs()
        needed = tuple(node for node in self.network.order(nodes) if isinstance(node, Input))
        features = self._in_order(needed)
        wanted = Wanted(features, (), self._columns, self.encoding.copy())
        stream = is_stream(x)
        source: Source = Stream(wanted, x, minibatch_size) if stream else take_rows(wanted, x)
        found: dict[str, list[Any]] = {node.name: [] for node in nodes}
        for minibatch in source.minibatches(minibatch_size):
            for name, value in self.model.evaluate(minibatch, [node.name for node in nodes]).items():
                found[name].append(value)
        joined = {name: _joined(values) for name, values in found.items()}
        return joined if len(nodes) > 1 else joined[nodes[0].name]

    def classify(self, x: Any, output: str = "", *, minibatch_size: int = EVALUATION_SIZE) -> Any:
        """Return the class with the highest score of each row; by name where the data of ``fit`` gave names.

        Args:
            x, minibatch_size: as of :meth:`predict`.
            output: has a score for each class; by default the network's only output.

        Raises:
            Problems, DataError: all that is wrong with the data.
            NetworkError: there are several outputs.
        """
        scores = self.predict(x, output or (), minibatch_size=minibatch_size)
        if isinstance(scores, dict):
            raise NetworkError(
                f"the network has several outputs: {', '.join(scores)}", hint="Name the one with the scores."
            )
        labels = self.network.roots["label"]
        names = self.encoding.labels.get(labels[0].name.lower()) if len(labels) == 1 else None
        known = None if names is None else np.array(names)
        if isinstance(scores, list):
            return [_best(one, known) for one in scores]
        return _best(scores, known)

    # -- data ---------------------------------------------------------------------------------------------

    def _outputs(self) -> list[Node]:
        found = self.network.roots["output"]
        if not found:
            raise NetworkError("the network marks no output", hint="Name the nodes whose values you want.")
        return list(found)

    def _in_order(self, nodes: Sequence[Input]) -> tuple[Input, ...]:
        return tuple(node for node in self.network.inputs if node in nodes)

    def _wanted(self, encoding: Encoding) -> Wanted:
        nodes = [self._criterion, *(self.network[name] for name in self._counted())]
        needed = self._in_order([node for node in self.network.order(nodes) if isinstance(node, Input)])
        labels = tuple(node for node in needed if node in self.network.roots["label"])
        return Wanted(tuple(node for node in needed if node not in labels), labels, self._columns, encoding)

    def _counted(self) -> list[str]:
        given = self.network.roots["evaluation"] if self._evaluations is None else self._evaluations
        return [each if isinstance(each, str) else getattr(each, "node", each).name for each in given]

    def _source(self, x: Any, y: Any, weights: Any, size: int, encoding: Encoding) -> Source:
        wanted = self._wanted(encoding)
        if not is_stream(x):
            return take_rows(wanted, x, y, weights)
        if y is not None or weights is not None:
            raise UsageError(
                "the data come minibatch by minibatch, and labels or weights are given apart",
                hint="Let each minibatch be (x, y) or (x, y, weights).",
            )
        return Stream(wanted, x, size)

    def _split(
        self, data: Source, validation: Any, shuffle: bool, size: int, encoding: Encoding
    ) -> tuple[Source, Source | None]:
        """Return what is learned and what is held out."""
        if validation is None:
            return data, None
        if not isinstance(validation, float):
            parts = validation if isinstance(validation, tuple) and len(validation) in (2, 3) else (validation,)
            x, y, weights = (*parts, None, None)[:3]
            return data, self._source(x, y, weights, max(size, EVALUATION_SIZE), encoding)
        if not isinstance(data, Rows):
            raise UsageError(
                "no share can be held out of data that come minibatch by minibatch", hint="Give validation=data."
            )
        count = round(validation * len(data))
        if not 0 < count < len(data):
            raise UsageError(
                f"validation is {validation:g} of {len(data)} rows; something has to be left on both sides"
            )
        order = np.arange(len(data))
        if shuffle:
            order = np.random.Generator(np.random.Philox(key=[self._seed, 1 << 32])).permutation(order)
        return data.part(np.sort(order[:-count])), data.part(np.sort(order[-count:]))

    def _by_class(self, data: Source, given: ClassWeight, encoding: Encoding) -> Rows:
        labels = self._wanted(encoding).labels
        if not isinstance(data, Rows):
            raise UsageError(
                "class_weight needs data that are there at once", hint="Let minibatches be (x, y, weights)."
            )
        if len(labels) != 1:
            raise UsageError(f"class_weight needs one input that says the class; there are {len(labels)}")
        factors = class_weights(data, labels[0], given, encoding)
        before = data.values.get(WEIGHTS)
        if before is not None:
            several = isinstance(factors, list) or isinstance(before, list)
            factors = [a * b for a, b in zip(factors, before, strict=True)] if several else factors * before
        return attrs.evolve(data, values={**data.values, WEIGHTS: factors})

    # -- weights ------------------------------------------------------------------------------------------

    def _trainer(self, *, weighted: bool) -> Trainer:
        """Return what learns, with weights or without; each has learners' states of its own."""
        if not weighted:
            return self.trainer
        if self._weighted is None:
            made = weigh(self.network, self._criterion)
            self._weighted = made, self._made(made.network, made.criterion, self._counted())
        return self._weighted[1]

    def _ready(self, data: Source, *, weighted: bool) -> Source:
        """Return data with weights where the criterion wants them."""
        if not weighted or self._weighted is None:
            return data
        weigh_rows = partial(with_weights, weight=self._weighted[0].weight, inputs=self._wanted(self.encoding).inputs)
        if isinstance(data, Rows):
            return weigh_rows(data)
        data.ready = weigh_rows
        return data

    def __getstate__(self) -> dict[str, Any]:
        weighted = None if self._weighted is None else packed(self._weighted[1])
        counted = None if self._evaluations is None else self._counted()
        return {**self.__dict__, "_criterion": self._criterion.name, "_evaluations": counted, "_weighted": weighted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _criterion=state["trainer"].model.network[state["_criterion"]], _weighted=None)
        if state["_weighted"] is not None:
            unpack(self._trainer(weighted=True), state["_weighted"])

    def _names(self) -> dict[str, str]:
        """What criteria are called by the names of their nodes."""
        return {} if self._weighted is None else {self._weighted[0].criterion.name: self._criterion.name}


def _check_numbers(*, epochs: int = 1, minibatch_size: int = 1, checkpoint_every: int = 0) -> None:
    for name, value, least in (
        ("epochs", epochs, 1),
        ("minibatch_size", minibatch_size, 1),
        ("checkpoint_every", checkpoint_every, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise UsageError(f"{name} is {value!r}; it has to be a whole number from {least} on")


def _has_weights(data: Source | None) -> bool:
    return WEIGHTS in data.values if isinstance(data, Rows) else data is not None and data.has_weights


def _minibatches(source: Source, size: int) -> int | None:
    return -(-len(source) // size) if isinstance(source, Rows) else source.known_length


def _joined(values: list[Any]) -> Any:
    """Return the values of all minibatches as one."""
    if isinstance(values[0], list):
        return [one for each in values for one in each]
    return values[0] if len(values) == 1 else np.concatenate(values)


def _best(scores: Any, names: Any) -> Any:
    """Return the best class of each row; of one score the sign says which."""
    found = scores.argmax(axis=1) if scores.ndim > 1 and scores.shape[1] > 1 else (scores.reshape(-1) > 0).astype(int)
    return found if names is None else names[found]
