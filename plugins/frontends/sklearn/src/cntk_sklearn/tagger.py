"""SequenceTagger: a network that says a tag for each step of a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from cntk_builder_python import (
    LSTM,
    BiRecurrence,
    Dense,
    Dropout,
    Embedding,
    Graph,
    Recurrence,
    Sequential,
    cross_entropy_with_softmax,
)
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cntk_sklearn.training import Trained, seed_of

UNKNOWN = 0
"""Number of all words that are not known."""


class SequenceTagger(Trained, BaseEstimator):  # type: ignore[misc]
    """A recurrent network that says a tag for each step of a sequence.

    Sequences are lists of words, which may be of any hashable kind, or arrays of features ``(steps, features)``.

    Args:
        embedding: width of the words' vectors; arrays of features have none.
        hidden: units of each LSTM layer, in each direction.
        bidirectional: read sequences from both ends.
        min_count: words that are rarer in what is learned are unknown ones, from which is learned what is said of words
            that never came.
        dropout: share of the units of each layer that are left out in training.
        learner, learning_rate, l2, epochs, shuffle, early_stopping, validation_fraction, patience, random_state,
            engine, verbose: as of :class:`~cntk_sklearn.base.NetworkEstimator`.
        minibatch_size: sequences of a minibatch; ``auto`` is 200, or all if there are fewer.

    Attributes:
        classes_: the tags, sorted where they can be compared.
        words_: numbers of the words; None of arrays of features.
        estimator_, network_, loss_curve_, validation_loss_curve_, n_iter_: as of the others.
    """

    classes_: list[Any]
    words_: dict[Any, int] | None

    def __init__(
        self,
        embedding: int = 50,
        hidden: Any = (100,),
        *,
        bidirectional: bool = True,
        min_count: int = 1,
        dropout: float = 0.0,
        learner: str = "adam",
        learning_rate: float = 0.01,
        l2: float = 0.0,
        epochs: int = 30,
        minibatch_size: Any = 16,
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        random_state: Any = None,
        engine: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.embedding = embedding
        self.hidden = hidden
        self.bidirectional = bidirectional
        self.min_count = min_count
        self.dropout = dropout
        self.learner = learner
        self.learning_rate = learning_rate
        self.l2 = l2
        self.epochs = epochs
        self.minibatch_size = minibatch_size
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    # -- learning -----------------------------------------------------------------------------------------

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Hashable]]) -> Self:
        """Learn sequences; those without steps teach nothing.

        Args:
            X: sequences of words, or arrays ``(steps, features)``.
            y: the tags of their steps, of any hashable kind.

        Raises:
            ValueError: sequences and tags do not fit each other, there are none, or a parameter makes no sense.
        """
        _check_lengths(X, y)
        pairs = [(x, tags) for x, tags in zip(X, y, strict=True) if len(x)]
        if not pairs:
            raise ValueError("there is nothing to learn: there are no sequences with steps")
        self.words_ = None if _are_features(pairs[0][0]) else self._vocabulary([x for x, _ in pairs])
        self.n_features_in_ = len(self.words_) + 1 if self.words_ is not None else np.asarray(pairs[0][0]).shape[1]
        self.classes_ = _sorted({tag for _, tags in pairs for tag in tags})
        numbers = {tag: number for number, tag in enumerate(self.classes_)}
        labels = [np.array([numbers[tag] for tag in tags], np.int64) for _, tags in pairs]
        self._build()
        self._train([self._numbers(x) for x, _ in pairs], labels, None, self.epochs, reset=True)
        return self

    def _vocabulary(self, sequences: Sequence[Sequence[Hashable]]) -> dict[Any, int]:
        counts = Counter(word for sequence in sequences for word in sequence)
        known = [word for word, count in counts.items() if count >= self.min_count]
        return {word: number for number, word in enumerate(known, UNKNOWN + 1)}

    def _build(self) -> None:
        """Make the network. One tag alone gets a second score, which no step has."""
        seed = seed_of(self.random_state)
        graph = Graph(seed=seed)
        words = self.words_ is not None
        layers: list[Any] = [Embedding(self.embedding)] if words else []
        for units in (self.hidden,) if isinstance(self.hidden, int | np.integer) else self.hidden:
            size = int(units)
            read = BiRecurrence(LSTM(size), LSTM(size)) if self.bidirectional else Recurrence(LSTM(size))
            layers += [read, *([Dropout(self.dropout)] if self.dropout else [])]
        scores = max(2, len(self.classes_))
        z = Sequential(*layers, Dense(scores))(graph.input("x", self.n_features_in_, sparse=words))
        graph.criterion(cross_entropy_with_softmax(z, graph.label("y", scores, sparse=True)), "loss")
        graph.output(z, "z")
        self._make_trainable(graph.finish(), seed)

    def _numbers(self, sequence: Any) -> NDArray[Any]:
        """Return a sequence as the network takes it.

        Raises:
            ValueError: its steps have another number of features.
        """
        if self.words_ is not None:
            return np.array([self.words_.get(word, UNKNOWN) for word in sequence], np.int64)
        found = np.asarray(sequence, np.float32)
        if found.ndim != 2 or found.shape[1] != self.n_features_in_:
            raise ValueError(f"a sequence has the shape {found.shape}; it has to be (steps, {self.n_features_in_})")
        return found

    # -- asking -------------------------------------------------------------------------------------------

    def predict_proba(self, X: Sequence[Any]) -> list[NDArray[np.float32]]:
        """Return for each sequence the probabilities of the tags, ``(steps, tags)``.

        Raises:
            NotFittedError: nothing was learned.
            ValueError: a sequence has other features.
        """
        check_is_fitted(self)
        found = [np.zeros((0, len(self.classes_)), np.float32)] * len(X)
        places = [place for place, sequence in enumerate(X) if len(sequence)]
        if places:
            scores = self.estimator_.predict([self._numbers(X[place]) for place in places])
            for place, each in zip(places, scores, strict=True):
                found[place] = softmax(each[:, : len(self.classes_)], axis=1)
        return found

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """Return the tags of each sequence. What is raised is as above."""
        return [[self.classes_[best] for best in each.argmax(axis=1)] for each in self.predict_proba(X)]

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Hashable]]) -> float:
        """Return the share of the steps whose tag is right, over all sequences.

        Raises:
            NotFittedError: nothing was learned.
            ValueError: sequences and tags do not fit each other, or there are no steps.
        """
        _check_lengths(X, y)
        ours = [tag for tags in self.predict(X) for tag in tags]
        theirs = [tag for tags in y for tag in tags]
        if not theirs:
            raise ValueError("there is nothing to compare: there are no sequences with steps")
        return sum(bool(one == other) for one, other in zip(ours, theirs, strict=True)) / len(theirs)


def _are_features(sequence: Any) -> bool:
    return getattr(sequence, "ndim", 1) == 2


def _check_lengths(x: Sequence[Any], y: Sequence[Any]) -> None:
    """Check that each sequence has a tag for each of its steps.

    Raises:
        ValueError: it has not.
    """
    if len(x) != len(y):
        raise ValueError(f"there are {len(x)} sequences and tags of {len(y)}")
    for place, (sequence, tags) in enumerate(zip(x, y, strict=True)):
        if isinstance(sequence, str) or isinstance(tags, str):
            raise ValueError(f"sequence {place} is a string; give a list of words, and a list of tags")
        if len(sequence) != len(tags):
            raise ValueError(f"sequence {place} has {len(sequence)} steps and {len(tags)} tags")


def _sorted(tags: set[Any]) -> list[Any]:
    try:
        return sorted(tags)
    except TypeError:
        return sorted(tags, key=repr)
