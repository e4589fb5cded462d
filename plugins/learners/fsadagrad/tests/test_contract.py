"""The learner keeps the contract of learners."""

from __future__ import annotations

import pytest
from cntk_learner_fsadagrad import FSAdaGrad, FSAdaGradOptions

from cntk_testing import LearnerContract, PackagingContract


class TestFSAdaGrad(LearnerContract):
    learner_class = FSAdaGrad


class TestShortMemory(LearnerContract):
    @pytest.fixture
    def learner(self):
        return FSAdaGrad(FSAdaGradOptions(variance_time_constant=100.0, fs_adagrad_target_av_denom=0.0025))


class TestPackaging(PackagingContract):
    distribution = "cntk-learner-fsadagrad"
    kind = "learner"
