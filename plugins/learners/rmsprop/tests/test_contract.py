"""The learner keeps the contract of learners."""

from __future__ import annotations

import pytest
from cntk_learner_rmsprop import RmsProp, RmsPropOptions

from cntk_testing import LearnerContract, PackagingContract


class TestRmsProp(LearnerContract):
    learner_class = RmsProp


class TestPlain(LearnerContract):
    @pytest.fixture
    def learner(self):
        return RmsProp(RmsPropOptions(norm_with_ave_multiplier=False, rms_gamma=0.5, rms_wgt_max=0.3))


class TestPackaging(PackagingContract):
    distribution = "cntk-learner-rmsprop"
    kind = "learner"
