"""What the real cuDNN says of our convolutions, for GPUs that are described to it; see :mod:`cudnn_plans`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "cudnn_plans.py"
NOT_HERE = 77


@pytest.fixture(scope="module")
def found():
    """What the program prints; it runs by itself because this process has stand-ins in the places of libraries."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False, env=environment)
    if done.returncode == NOT_HERE:
        pytest.skip(done.stdout.strip())
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_the_frontend_is_what_the_stand_in_takes_it_for(found):
    assert found["differences"] == []


def test_there_is_a_plan_for_every_convolution(found):
    assert [each for each in found["plans"] if each["refused"]] == []
    kinds = {(each["device"], each["precision"], each["product"]) for each in found["plans"]}
    assert kinds == set(product(("sm_80", "sm_90"), ("float32", "float64", "TF32"), ("maps", "image", "weights")))


@pytest.mark.parametrize("device", ["sm_80", "sm_90"])
def test_full_precision_has_other_plans_than_tf32(found, device):
    sizes = {
        precision: [
            each["workspace"] for each in found["plans"] if (each["device"], each["precision"]) == (device, precision)
        ]
        for precision in ("float32", "TF32")
    }
    assert sizes["float32"] != sizes["TF32"]
