"""The small recipe, for the tests beside this file, and their helpers for each other."""

import sys
from pathlib import Path

from cntk_testing.small_recipe import recipe

sys.path.insert(0, str(Path(__file__).parent))

__all__ = ["recipe"]
