"""The small recipe, for the tests beside this file."""

from cntk_testing.small_recipe import recipe

__all__ = ["recipe"]
