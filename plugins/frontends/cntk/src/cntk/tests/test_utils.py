"""The device of a tutorial that is run as a test."""

from __future__ import annotations

import os

from cntk.device import cpu, gpu, try_set_default_device


def set_device_from_pytest_env() -> None:
    """Take the device that the variable ``TEST_DEVICE`` names, ``cpu`` or ``gpu``, if there is one."""
    wanted = os.environ.get("TEST_DEVICE")
    if wanted is not None:
        try_set_default_device(cpu() if wanted == "cpu" else gpu(0))
