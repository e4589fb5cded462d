"""What the PyTorch candidates share: the device, and minibatches that are fed to it from the memory of the host."""

from __future__ import annotations

import torch

from candidates.devices import device

DEVICE = torch.device(device())


def prepare(threads: int) -> None:
    """Set how many threads compute; on a GPU have everything computed in single precision, as ours is.

    PyTorch rounds to TF32 in convolutions by default, though not in products.

    Raises:
        ImportError: PyTorch cannot compute there, so that the candidate is left out.
    """
    torch.set_num_threads(threads)
    if DEVICE.type == "cuda":
        if not torch.cuda.is_available():
            raise ImportError("this PyTorch finds no GPU")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False


def held(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a minibatch as the host holds it: pinned where it is sent to a GPU."""
    return tensor if DEVICE.type == "cpu" else tensor.pin_memory()


def fed(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return a minibatch's tensors on the device, without waiting for their transfer."""
    return [tensor.to(DEVICE, non_blocking=True) for tensor in tensors]
