"""The learner keeps the contract of learners."""

from __future__ import annotations

import pytest
from cntk_learner_sgd import SGD, SGDOptions

from cntk_testing import LearnerContract, PackagingContract


class TestSGD(LearnerContract):
    learner_class = SGD


class TestNesterov(LearnerContract):
    @pytest.fixture
    def learner(self):
        return SGD(SGDOptions(use_nag=True))


class TestPackaging(PackagingContract):
    distribution = "cntk-learner-sgd"
    kind = "learner"
