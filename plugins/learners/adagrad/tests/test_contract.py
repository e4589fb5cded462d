"""The learner keeps the contract of learners."""

from __future__ import annotations

import pytest
from cntk_learner_adagrad import AdaGrad, AdaGradOptions

from cntk_testing import LearnerContract, PackagingContract


class TestAdaGrad(LearnerContract):
    learner_class = AdaGrad


class TestPlain(LearnerContract):
    @pytest.fixture
    def learner(self):
        return AdaGrad(AdaGradOptions(norm_with_ave_multiplier=False))


class TestPackaging(PackagingContract):
    distribution = "cntk-learner-adagrad"
    kind = "learner"
