"""How often a command looks for cycles, and what it lets go of at its end."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cntk_kit_recipes.cli import main

HELD = """
import gc, sys
from cntk_kit_recipes.cli import main

class Cycle:
    def __del__(self):
        print("let go of")

sys.argv = ["cntk"]
main()
gc.disable()
cycle = Cycle()
cycle.own = cycle
del cycle
"""


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_collector_of_a_program_that_calls_it_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    gc.set_threshold(123, 4, 5)
    assert main([]) == 1
    assert gc.get_threshold() == (123, 4, 5)


def test_cycles_are_let_go_of_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "let go of"


def test_a_command_looks_for_cycles_seldom() -> None:
    seen = (
        "import gc, sys; from cntk_kit_recipes.cli import main; sys.argv = ['cntk']; main(); print(*gc.get_threshold())"
    )
    done = subprocess.run([sys.executable, "-c", seen], check=True, capture_output=True, text=True)
    assert done.stdout.split()[-3:] == ["10000", "10", "10"]
