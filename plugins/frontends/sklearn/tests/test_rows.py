"""CntkClassifier, CntkRegressor and CntkTransformer: what they learn, and how they go with the rest of scikit-learn."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.sparse import csr_array

if TYPE_CHECKING:
    import pandas as pd
    from cntk_builder_python import Dense, Term, tanh
    from cntk_sklearn import CntkClassifier, CntkRegressor, CntkTransformer
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module", autouse=True)
def later() -> None:
    """Import what takes long when the first of these tests runs: each worker collects all tests."""
    import pandas as pd  # noqa: F401
    from cntk_builder_python import Dense, Term, tanh  # noqa: F401
    from cntk_sklearn import CntkClassifier, CntkRegressor, CntkTransformer  # noqa: F401
    from sklearn.base import clone  # noqa: F401
    from sklearn.exceptions import NotFittedError  # noqa: F401
    from sklearn.model_selection import GridSearchCV  # noqa: F401
    from sklearn.pipeline import make_pipeline  # noqa: F401
    from sklearn.preprocessing import StandardScaler  # noqa: F401

    globals().update(locals())


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 2))
SAME = X[:, 0] * X[:, 1] > 0
NAMES = np.where(SAME, "same", "other")


def classifier(**settings: Any) -> CntkClassifier:
    given = {"learning_rate": 0.03, "epochs": 60, "random_state": 0, "activation": "tanh", **settings}
    return CntkClassifier((16,), **given)


def test_classes_have_names() -> None:
    fitted = classifier().fit(X, NAMES)
    assert fitted.score(X, NAMES) > 0.95
    assert fitted.classes_.tolist() == ["other", "same"]
    scores, chances = fitted.decision_function(X), fitted.predict_proba(X)
    assert scores.shape == (120,)
    assert ((scores > 0) == (fitted.predict(X) == "same")).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(chances), fitted.predict_log_proba(X), atol=1e-9)
    assert fitted.n_iter_ == len(fitted.loss_curve_) == 60
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0]


def test_three_classes_have_a_score_each() -> None:
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    fitted = classifier().fit(X, classes)
    assert fitted.decision_function(X).shape == fitted.predict_proba(X).shape == (120, 3)
    assert fitted.score(X, classes) > 0.95


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_may_have_several_labels(*, sparse: bool) -> None:
    labels = np.stack([X[:, 0] > 0, X[:, 1] > 0, SAME], axis=1).astype(int)
    fitted = classifier().fit(X, csr_array(labels) if sparse else labels)
    assert fitted.predict(X).shape == (120, 3)
    assert (fitted.predict(X) == labels).mean() > 0.95
    chances = fitted.predict_proba(X)
    assert ((chances > 0.5) == fitted.predict(X)).all()
    np.testing.assert_allclose(np.log(chances), fitted.predict_log_proba(X), atol=1e-9)


def test_classes_of_several_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^y has several columns of classes; give one column, or one of 0 and 1 "):
        classifier().fit(X, RANDOM.integers(0, 3, size=(120, 2)))


def test_class_weights_are_weights_of_rows() -> None:
    by_class = classifier(class_weight={"same": 3.0, "other": 1.0}, epochs=5).fit(X, NAMES)
    by_row = classifier(epochs=5).fit(X, NAMES, np.where(SAME, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    plain = classifier(epochs=5).fit(X, NAMES)
    assert by_class.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()


def test_weights_that_leave_nothing() -> None:
    with pytest.raises(ValueError, match=r"^class_weight and sample_weight leave nothing to learn: all weights are 0$"):
        classifier(class_weight={"same": 0.0, "other": 1.0}).fit(X, NAMES, SAME.astype(float))
    with pytest.raises(ValueError, match=r"^Negative values in sample_weight: a weight must not be negative$"):
        classifier().fit(X, NAMES, -np.ones(120))
    with pytest.raises(ValueError, match=r"^sample_weight has the shape \(3,\); one number is needed for each of 120 "):
        classifier().fit(X, NAMES, np.ones(3))
    with pytest.raises(ValueError, match=r"^all weights in sample_weight are zero: there is nothing to learn$"):
        classifier().fit(X, NAMES, np.zeros(120))


def test_rows_with_labels_after_rows_with_classes() -> None:
    fitted = classifier().partial_fit(X[:50], NAMES[:50], ["same", "other"])
    with pytest.raises(ValueError, match=r"^y has one class of each row and had labels before, or the "):
        fitted.partial_fit(X[50:], np.stack([SAME[50:], ~SAME[50:]], 1).astype(int))


def test_partial_fit_learns_one_epoch_and_knows_its_classes() -> None:
    fitted = classifier().partial_fit(X[:50], NAMES[:50], ["same", "other", "none"])
    fitted.partial_fit(X[50:], NAMES[50:])
    assert fitted.n_iter_ == 2
    assert fitted.predict_proba(X).shape == (120, 3)
    with pytest.raises(ValueError, match=r"^y has classes \['strange'\]; known are \['none' 'other' 'same'\]$"):
        fitted.partial_fit(X[:1], ["strange"])


def test_warm_start_goes_on_and_a_fit_begins_anew() -> None:
    warm, cold = classifier(epochs=10, warm_start=True), classifier(epochs=10)
    for each in (warm, cold):
        each.fit(X, NAMES).fit(X, NAMES)
    assert (warm.n_iter_, cold.n_iter_) == (20, 10)
    assert warm.loss_curve_[-1] < cold.loss_curve_[-1]


def test_early_stopping_holds_rows_out() -> None:
    fitted = classifier(early_stopping=True, patience=2, validation_fraction=0.25, epochs=300).fit(X, NAMES)
    assert fitted.n_iter_ == len(fitted.validation_loss_curve_) < 300


@pytest.mark.parametrize("weighted", [False, True])
def test_pickles_go_on_to_the_same_bytes(*, weighted: bool) -> None:
    weights = np.linspace(1.0, 2.0, 120) if weighted else None
    fitted = classifier(epochs=3).fit(X, NAMES, weights)
    copies = [pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)]
    wanted = fitted.partial_fit(X, NAMES, sample_weight=weights).predict_proba(X)
    for each in copies:
        found = each.partial_fit(X, NAMES, sample_weight=weights).predict_proba(X)
        np.testing.assert_array_equal(found, wanted)


def test_a_clone_learns_the_same() -> None:
    fitted = classifier(epochs=3).fit(X, NAMES)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    np.testing.assert_array_equal(clone(fitted).fit(X, NAMES).predict_proba(X), fitted.predict_proba(X))


def test_sparse_rows_say_what_dense_rows_say() -> None:
    rows = np.where(RANDOM.random((60, 9)) < 0.3, 1.0, 0.0)
    classes = (rows[:, 0] > 0).astype(int)
    sparse, dense = classifier().fit(csr_array(rows), classes), classifier().fit(rows, classes)
    assert sparse.network_["x"].sparse
    np.testing.assert_allclose(sparse.predict_proba(rows), dense.predict_proba(csr_array(rows)), atol=1e-6)


def test_numbers_have_the_precision_of_the_rows() -> None:
    for dtype in (np.float32, np.float64):
        fitted = classifier(epochs=2).fit(X.astype(dtype), NAMES)
        assert fitted.network_.dtype == fitted.predict_proba(X.astype(dtype)).dtype == dtype


def test_the_hidden_layers_may_be_a_function() -> None:
    def layers(x: Term) -> Term:
        return Dense(8, tanh)(Dense(8, tanh)(x))

    fitted = CntkClassifier(layers, epochs=60, learning_rate=0.03, random_state=0).fit(X, NAMES)
    assert fitted.score(X, NAMES) > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "nothing"}, "activation is 'nothing'; give the name of a function such as 'relu' or 'tanh'"),
        ({"hidden": (0,)}, "hidden is (0,); give the units of the hidden layers, or a function"),
        ({"minibatch_size": "all"}, "minibatch_size is 'all'; give a number, or 'auto'"),
    ],
)
def test_parameters_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        CntkClassifier(**settings).fit(X, NAMES)
    assert str(raised.value) == message


def test_a_regressor_says_one_number_or_several() -> None:
    both = np.stack([X[:, 0] * 2 + 1, X[:, 1] - X[:, 0]], axis=1)
    settings: dict[str, Any] = {"epochs": 100, "learning_rate": 0.03, "random_state": 0}
    several, one = CntkRegressor((16,), **settings).fit(X, both), CntkRegressor((16,), **settings).fit(X, both[:, 0])
    assert several.predict(X).shape == (120, 2)
    assert one.predict(X).shape == (120,)
    assert min(several.score(X, both), one.score(X, both[:, 0])) > 0.98
    with pytest.raises(ValueError, match=r"^y has 1 columns, and those before had 2$"):
        several.partial_fit(X, both[:, 0])


@pytest.mark.slow
@pytest.mark.thorough  # two processes begin
def test_a_pipeline_in_a_search_of_two_processes() -> None:
    made = make_pipeline(StandardScaler(), CntkTransformer(n_components=4, random_state=0), classifier(epochs=20))
    search = GridSearchCV(made, {"cntkclassifier__hidden": [(4,), (16,)]}, cv=2, n_jobs=2).fit(X, NAMES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(X).shape == (120,)


def test_a_transformer_gives_a_layer_of_what_was_learned() -> None:
    made = CntkTransformer(classifier()).set_output(transform="pandas")
    found = made.fit(pd.DataFrame(X, columns=["a", "b"]), NAMES).transform(pd.DataFrame(X, columns=["a", "b"]))
    assert list(found.columns) == [f"cntktransformer{number}" for number in range(16)]
    assert made.layer_ == "hidden1"
    assert abs(found.to_numpy()).max() <= 1.0  # of tanh
    with pytest.raises(ValueError, match=r"^CntkClassifier requires y to be passed, but the target y is None$"):
        CntkTransformer(classifier()).fit(X)


def test_without_labels_the_middle_layer_of_an_autoencoder() -> None:
    made = CntkTransformer(CntkRegressor((8, 3, 8), epochs=2)).fit(X)
    assert made.layer_ == "hidden2"
    assert made.transform(X).shape == (120, 3)
    assert CntkTransformer(CntkRegressor((8, 3), epochs=2), layer=-2).fit(X).transform(X).shape == (120, 8)
    with pytest.raises(ValueError, match=r"^there is no layer 7; the network has 2 hidden layers, from 0$"):
        CntkTransformer(CntkRegressor((8, 3), epochs=1), layer=7).fit(X)
