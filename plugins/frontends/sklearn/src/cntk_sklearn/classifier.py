"""CntkClassifier: a network that says classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from cntk_builder_python import Term, cross_entropy_with_softmax, softplus
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from cntk_sklearn.base import NetworkEstimator

_MULTILABEL = "multilabel-indicator"


def sigmoid_cross_entropy(z: Term, labels: Term) -> Term:
    """Return the cross entropy of logistic outputs, summed over them, in a form that overflows nowhere."""
    return z.graph.apply("SumColumnElements", softplus(z) - labels * z)


class CntkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that says the class of a row, or which labels it has.

    Classes have any names; the criterion is the cross entropy with softmax. With a matrix ``y`` of 0 and 1 each of its
    columns is a label that a row has or has not.

    Arguments are those of :class:`~cntk_sklearn.base.NetworkEstimator`, and ``class_weight``: factors by class, or
    ``balanced``.

    Attributes:
        classes_: the classes, sorted; of a matrix the numbers of its columns.
        estimator_: the :class:`cntk_fit.Estimator` that trains the network.
        network_: the network: its scores are ``z``, its hidden layers are ``hidden1``, ``hidden2``, ...
        loss_curve_, validation_loss_curve_, n_iter_: the criterion of each epoch, and how many there were.
    """

    classes_: NDArray[Any]
    _multilabel: bool

    def __init__(
        self,
        hidden: Any = (100,),
        activation: str = "relu",
        *,
        dropout: float = 0.0,
        learner: str = "adam",
        learning_rate: float = 0.005,
        l2: float = 0.0,
        epochs: int = 200,
        minibatch_size: Any = "auto",
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        engine: str = "auto",
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden,
            activation,
            dropout=dropout,
            learner=learner,
            learning_rate=learning_rate,
            l2=l2,
            epochs=epochs,
            minibatch_size=minibatch_size,
            shuffle=shuffle,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            warm_start=warm_start,
            random_state=random_state,
            engine=engine,
            verbose=verbose,
        )
        self.class_weight = class_weight

    # -- learning -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows.

        Args:
            X: rows ``(rows, features)``: an array, a table or a sparse matrix.
            y: classes ``(rows,)``, or 0 and 1 for each label ``(rows, labels)``.
            sample_weight: of each row; how often it is there.

        Raises:
            ValueError: the data are not what scikit-learn allows, or a parameter makes no sense.
            CntkError: the criterion is not a number any more, or there is no such learner or engine.
        """
        return self._fit(X, y, sample_weight, None, goes_on=self._goes_on(), epochs=self.epochs)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows for one epoch, going on with what was learned.

        Args:
            X, y, sample_weight: as of :meth:`fit`.
            classes: all that will ever come; the first call needs them if its rows do not have all.

        Raises:
            ValueError, CntkError: as of :meth:`fit`; or there are classes that are not known.
        """
        return self._fit(X, y, sample_weight, classes, goes_on=hasattr(self, "estimator_"), epochs=1)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: Any,
        *,
        goes_on: bool,
        epochs: int,
    ) -> Self:
        x, y, weights = self._given(X, y, sample_weight, reset=not goes_on, multi_output=True)
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multiclass-multioutput":
            raise ValueError("y has several columns of classes; give one column, or one of 0 and 1 for each label")
        multilabel = kind == _MULTILABEL
        y = _dense(y) if multilabel else column_or_1d(y, warn=True)
        if goes_on and multilabel != self._multilabel:
            raise ValueError("y has one class of each row and had labels before, or the other way round")
        known = self._known(y, classes, multilabel=multilabel, goes_on=goes_on)
        if self.class_weight is not None:
            factors = compute_sample_weight(self.class_weight, y)
            weights = factors if weights is None else weights * factors
            if not weights.any():
                raise ValueError("class_weight and sample_weight leave nothing to learn: all weights are 0")
        self.classes_, self._multilabel = known, multilabel
        return self._learn(
            x,
            y.astype(x.dtype) if multilabel else self._numbers(y),
            weights,
            outputs=len(known),
            criterion=sigmoid_cross_entropy if multilabel else cross_entropy_with_softmax,
            goes_on=goes_on,
            epochs=epochs,
        )

    def _known(self, y: NDArray[Any], classes: Any, *, multilabel: bool, goes_on: bool) -> NDArray[Any]:
        """Return the classes there are.

        Raises:
            ValueError: some of ``y`` are none of those of the calls before, or of those that are given.
        """
        found = np.arange(y.shape[1]) if multilabel else np.unique(y)
        if goes_on:
            known = self.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError(f"classes are {np.unique(classes)}, and were {known} before")
        else:
            known = found if classes is None else np.unique(classes)
        strange = np.setdiff1d(found, known)
        if len(strange) or (multilabel and len(found) != len(known)):
            raise ValueError(f"y has classes {strange if len(strange) else found}; known are {known}")
        return known

    def _numbers(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of classes; of the only class there is, its one-hot samples."""
        return np.searchsorted(self.classes_, y) if len(self.classes_) > 1 else np.ones((len(y), 1))

    # -- asking -------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return scores ``(rows, classes)``; of two classes ``(rows,)``, positive for the second one.

        Raises:
            NotFittedError: nothing was learned.
            ValueError: the rows are not what scikit-learn allows.
        """
        scores = self._asked(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 and not self._multilabel else scores

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return probabilities ``(rows, classes)``; of labels, that of each. What is raised is as above."""
        scores = self._asked(X)
        found: NDArray[np.floating[Any]] = expit(scores) if self._multilabel else softmax(scores, axis=1)
        return found

    def predict_log_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the logarithms of the probabilities, exact for small ones."""
        scores = self._asked(X)
        found: NDArray[np.floating[Any]] = log_expit(scores) if self._multilabel else log_softmax(scores, axis=1)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row; or 0 and 1 for each label. What is raised is as above."""
        scores = self._asked(X)
        if self._multilabel:
            return (scores > 0).astype(np.int64)
        found: NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return found

    def __sklearn_tags__(self) -> Any:
        """Say that rows may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _dense(y: Any) -> NDArray[Any]:
    return np.asarray(y.toarray() if hasattr(y, "toarray") else y)
