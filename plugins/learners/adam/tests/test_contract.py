"""The learners keep the contract of learners."""

from __future__ import annotations

import pytest
from cntk_learner_adam import AdaDelta, Adam, AdaMax, AdamOptions, AdamW, AdamWOptions

from cntk_testing import LearnerContract, PackagingContract


class TestAdam(LearnerContract):
    learner_class = Adam


class TestAdamWithItsOwnMomentum(LearnerContract):
    @pytest.fixture
    def learner(self):
        return Adam(AdamOptions(beta1=0.8, beta2=0.9, epsilon=1e-3, unit_gain=False))


class TestAdaMax(LearnerContract):
    learner_class = AdaMax


class TestAdaDelta(LearnerContract):
    learner_class = AdaDelta


class TestAdamW(LearnerContract):
    learner_class = AdamW
    follows_gradient = False  # a large weight decays faster than a small gradient moves it

    @pytest.fixture
    def learner(self):
        return AdamW(AdamWOptions(weight_decay=0.5))


class TestPackaging(PackagingContract):
    distribution = "cntk-learner-adam"
    kind = "learner"
