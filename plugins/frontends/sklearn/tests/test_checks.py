"""scikit-learn's own checks of estimators: all of them, none expected to fail. Some at each run, all where time is."""

from __future__ import annotations

from typing import Any

import pytest

QUICK = {
    "check_classifiers_one_label",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_no_attributes_set_in_init",
    "check_sample_weight_equivalence_on_dense_data",
    "check_parameters_default_constructible",
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*SCIPY_ARRAY_API is not set:sklearn.exceptions.SkipTestWarning"  # checks of arrays that are not NumPy's
)


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_some_checks_of_the_classifier(name: str) -> None:
    from cntk_sklearn import CntkClassifier
    from sklearn.utils.estimator_checks import estimator_checks_generator

    checks = [
        (estimator, check)
        for estimator, check in estimator_checks_generator(CntkClassifier())
        if name_of(check) == name
    ]
    assert checks
    for estimator, check in checks:
        check(estimator)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["CntkClassifier", "CntkRegressor", "CntkTransformer"])
def test_all_checks(kind: str) -> None:
    import cntk_sklearn
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(getattr(cntk_sklearn, kind)())


@pytest.mark.slow
@pytest.mark.thorough
def test_all_checks_of_a_layer_of_a_regressor() -> None:
    from cntk_sklearn import CntkRegressor, CntkTransformer
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(CntkTransformer(CntkRegressor((8,))))
