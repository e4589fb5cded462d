"""The blocks of a recipe that the core reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from cntk_core.config import UnreadKeys, option_key
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block import parallel_block, sgd_block

_BLOCKS: Mapping[str, Any] = {sgd_block.WHAT: SGDSettings, parallel_block.WHAT: parallel_block.ParallelOptions}
"""What messages call a block, and its options."""


def offer_core_blocks(unread: UnreadKeys) -> None:
    """Let it be known which options belong to the core's blocks, also where a command does not read these."""
    for what, options_class in _BLOCKS.items():
        unread.offer(what, [option_key(field) for field in attrs.fields(options_class) if field.init])
