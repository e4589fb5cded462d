"""Products in 16-bit whole numbers."""

from __future__ import annotations

import attrs

from cntk_core.ops.define import declare_op
from cntk_core.ops.products import TimesAttributes, complete_times, guess_times, infer_times


@attrs.frozen
class QuantizedTimesAttributes(TimesAttributes):
    """Attributes of QuantizedTimes: those of Times, and how many bits of the operands' range are left free."""

    bit_smoothing_a: int = 1
    bit_smoothing_b: int = 1


QUANTIZED_TIMES = declare_op(
    "QuantizedTimes",
    "Times, computed in 16-bit whole numbers; for evaluation only.",
    inputs=2,
    infer=infer_times,
    complete=complete_times,
    guess=guess_times,
    attributes=QuantizedTimesAttributes,
    differentiable=(False,),
)

OPS = (QUANTIZED_TIMES,)
