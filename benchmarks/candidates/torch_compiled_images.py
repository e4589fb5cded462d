"""PyTorch with ``torch.compile`` around the forward part, in ``channels_last``."""

from __future__ import annotations

from candidates import torch_channels_last


class Candidate(torch_channels_last.Candidate):
    """As the eager one, compiled."""

    compiled = True
