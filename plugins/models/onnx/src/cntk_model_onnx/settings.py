"""What may be said about a file that is written."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cntk_core.api import UsageError, did_you_mean

OPSET = 21
"""The operator set of ONNX that files are written with."""

CHOICES = {"sequences": ("batch", "one"), "sparse": ("index", "dense"), "quantize": ("none", "int8", "fp16"),
           "loops": ("operation", "scan")}  # fmt: skip
"""What each setting may be; the first is the default."""


@attrs.frozen
class ExportSettings:
    """Settings of a file.

    Attributes:
        sequences: ``batch`` has inputs ``(sequences, frames, *shape)`` and their lengths, ``one`` has one sequence,
            ``(frames, *shape)``.
        sparse: inputs that are sparse take the number of the element that is 1 (``index``), or all elements
            (``dense``).
        quantize: ``int8`` or ``fp16``: weights are kept as such numbers.
        loops: ``operation`` writes a loop as ``LSTM``, ``GRU`` or ``RNN`` where it is one, ``scan`` every one as
            ``Scan``.
    """

    sequences: str = "batch"
    sparse: str = "index"
    quantize: str = "none"
    loops: str = "operation"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ExportSettings:
        """Read settings by name.

        Raises:
            UsageError: there is no such setting, or it cannot be that.
        """
        for name, value in given.items():
            if name not in CHOICES:
                raise UsageError(
                    f"ONNX files have no setting '{name}'{did_you_mean(name, CHOICES)}",
                    hint=f"Settings: {', '.join(CHOICES)}",
                )
            if value not in CHOICES[name]:
                raise UsageError(
                    f"the setting {name} cannot be '{value}'{did_you_mean(value, CHOICES[name])}",
                    hint=f"It is one of {', '.join(CHOICES[name])}.",
                )
        return cls(**given)
