"""scikit-learn's own checks of estimators: all of them, none expected to fail. Some at each run, all where time is."""

from typing import Any

import pytest
from cntk_sklearn import CntkClassifier, CntkRegressor, CntkTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

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
    "ignore:SCIPY_ARRAY_API is not set:sklearn.exceptions.SkipTestWarning"  # checks of arrays that are not NumPy's
)


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_some_checks_of_the_classifier(name: str) -> None:
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
@parametrize_with_checks([CntkClassifier(), CntkRegressor(), CntkTransformer(), CntkTransformer(CntkRegressor((8,)))])
def test_all_checks(estimator: Any, check: Any) -> None:
    check(estimator)
