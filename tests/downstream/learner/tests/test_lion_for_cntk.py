from lion_for_cntk import Lion

from cntk_testing import LearnerContract, PackagingContract


class TestLion(LearnerContract):
    learner_class = Lion


class TestPackaging(PackagingContract):
    distribution = "lion-for-cntk"
    kind = "learner"
