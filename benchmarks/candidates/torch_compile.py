"""PyTorch with ``torch.compile`` around forward and loss."""

from __future__ import annotations

from candidates import torch_eager


class Candidate(torch_eager.Candidate):
    """As the eager one, compiled."""

    compiled = True
