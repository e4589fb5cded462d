"""``cntk train -n 4 --data-parallel``: what a recipe that names no strategy is told on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cntk_core.config import Config
from cntk_core.errors import CntkError
from cntk_kit_recipes.block.parallel_block import KEY

METHOD = "DataParallelSGD"
"""The strategy that ``--data-parallel`` means."""

ADVICE = f"add {KEY} = [ parallelizationMethod = {METHOD} ] to the SGD block, or start it with --data-parallel"
"""What mends a training of several ranks that exchange nothing."""


def overrides(config: Config, sections: Iterable[Config]) -> list[str]:
    """Return the ``key=value`` with which trainings that name no strategy get one.

    Args:
        config: the recipe.
        sections: its train sections. An SGD block that several of them have from a section around is told once.
    """
    found = [] if config.boolean(KEY, True) else [f"{KEY}=true"]
    for section in sections:
        try:
            block = section.section("SGD")
        except CntkError:  # it is told when the section is checked
            continue
        if not _names_a_strategy(block):
            value = f"{KEY}=[parallelizationMethod={METHOD}]"
            for name in reversed(_path(block)):
                value = f"{name}=[{value}]"
            found.append(value)
    return list(dict.fromkeys(found))


def _names_a_strategy(block: Config) -> bool:
    value = block.own(KEY)
    if value is None or not value.is_block:
        return False
    return block.section_of(value).string("parallelizationMethod", "none").lower() != "none"


def _path(block: Config) -> Sequence[str]:
    return [name for name in block.name.split(":") if name]
