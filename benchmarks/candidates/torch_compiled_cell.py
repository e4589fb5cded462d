"""As ``torch_cell``, with the loop compiled by ``torch.compile``, which writes it out frame by frame."""

from __future__ import annotations

import torch

from candidates import torch_cell


class Candidate(torch_cell.Candidate):
    """Trains the cell of the workload."""

    def make_loss(self):
        """Return the function that is trained."""
        return torch.compile(self._loss)
