"""Ways to train in parallel, as ``cntk simulate --method`` names them."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from cntk_core.api import Config, Parallelizer, UsageError, did_you_mean
from cntk_core.api.recipes import PARALLEL_KEY as KEY
from cntk_core.api.recipes import RecipeContext, read_parallel

OF_RECIPE = "recipe"
"""What the recipe says."""

NAMED = {
    "full": "DataParallelSGD=[ gradientBits=32 ]",
    "block-momentum": "BlockMomentumSGD",
    "model-averaging": "ModelAveragingSGD",
    "asgd": "DataParallelASGD",
    "asgd-pipeline": "DataParallelASGD=[ usePipeline=true ]",
}
"""Names, and the entries of the block parallelTrain that they mean. A strategy alone has its options of the recipe."""

_BITS = re.compile(r"(\d+)bit(s)?")
_BUFFERED = "-buffered"


@attrs.frozen(eq=False)
class Method:
    """A way to train in parallel.

    Attributes:
        title: for tables and figures.
        make: makes the strategy of a rank.
    """

    title: str
    make: Callable[[], Parallelizer]


def find_method(name: str, context: RecipeContext, sgd: Config) -> Method:
    """Return the method that a word of the command line means.

    Args:
        name: ``recipe``, a name of ours (``full``, ``1bit``, ``1bit-buffered``, ``block-momentum``, ...), or any
            strategy with its options as in the block parallelTrain: ``BlockMomentumSGD=[ blockSize=8192 ]``.
        context: knows the plugins.
        sgd: the SGD block of the recipe.

    Raises:
        UsageError: there is no such method, or the recipe has none.
        CntkError: the options are wrong, or the strategy is not installed.
    """
    block = sgd
    if name != OF_RECIPE:
        strategy, equals, options = _entry(name).partition("=")
        entry = f"{strategy}={options}" if equals else _own(sgd, strategy)
        block = sgd.with_entries(f"{KEY}=[ parallelizationMethod={strategy} ; {entry} ]")
    registry = context.plugins.registry

    def make() -> Parallelizer:
        found = read_parallel(block, registry.parallelizers, registry.aggregations).parallelizer
        if found is None:
            raise UsageError(
                "the recipe names no parallelizationMethod, so there is nothing to simulate",
                hint=f"Give --method {','.join(['full', '1bit', *list(NAMED)[1:]])}",
            )
        return found

    title = name
    if name == OF_RECIPE:
        title = read_parallel(block, registry.parallelizers, registry.aggregations).name or name
    make()
    return Method(title, make)


def _entry(name: str) -> str:
    """Return the entry of the block parallelTrain that a name means."""
    if "=" in name:
        return name
    plain, buffered = name.removesuffix(_BUFFERED), name.endswith(_BUFFERED)
    bits = _BITS.fullmatch(plain)
    if bits or (plain == "full" and buffered):
        number = bits[1] if bits else "32"
        return (
            f"DataParallelSGD=[ gradientBits={number} ; "
            f"useBufferedAsyncGradientAggregation={'true' if buffered else 'false'} ]"
        )
    if name in NAMED:
        return NAMED[name]
    known = [OF_RECIPE, "1bit", "1bit-buffered", "full-buffered", *NAMED]
    raise UsageError(
        f"there is no method '{name}'{did_you_mean(name, known)}",
        hint=f"Methods: {', '.join(known)} (any number of bits), or NAME=[ options ] of a strategy",
    )


def _own(sgd: Config, strategy: str) -> str:
    """Return the entry with which the recipe gives options to a strategy; none if it does not."""
    parallel = sgd.own(KEY)
    if parallel is None or not parallel.is_block:
        return ""
    section = sgd.section_of(parallel)
    value = section.own(strategy)
    return f"{strategy}={value.raw.text}" if value is not None and value.is_block else ""


def split_methods(text: str) -> list[str]:
    """Return the methods of a list with commas; those in brackets belong to a method's options."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found if one.strip()]
