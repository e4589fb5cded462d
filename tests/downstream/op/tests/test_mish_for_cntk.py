from mish_for_cntk import HardSwishAttributes, hard_swish, mish

from cntk_testing import OpContract, OpExample


class TestMish(OpContract):
    op = mish
    examples = (OpExample(((4,),)), OpExample(((3, 2),)))


class TestHardSwish(OpContract):
    op = hard_swish
    examples = (OpExample(((4,),)), OpExample(((4,),), HardSwishAttributes(shift=2.0)))
