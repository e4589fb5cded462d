"""What authors of plugins test with: the reference engine, gradient checks, contract suites."""

from cntk_core.testing.gradients import check_gradients, check_op_gradients
from cntk_core.testing.op_contract import OpContract, OpExample, check_op
from cntk_core.testing.reference import ReferenceEngine

__all__ = ["OpContract", "OpExample", "ReferenceEngine", "check_gradients", "check_op", "check_op_gradients"]
