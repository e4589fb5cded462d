"""What ``makeMode`` and ``resume`` of a section that trains mean together."""

from __future__ import annotations

import attrs

from cntk_core.config import Config
from cntk_core.errors import OptionError

AUTO, NEVER, MUST = "auto", "never", "must"
_WORDS = {AUTO: AUTO, NEVER: NEVER, MUST: MUST, "true": AUTO, "false": ""}


@attrs.frozen
class Resumption:
    """Whether training goes on from what is there.

    Attributes:
        make_mode: go on from an interrupted training; a final model is the end.
        beyond: go on from a final model that has fewer epochs than asked for now.
        must: it is an error if there is nothing to go on from.
    """

    make_mode: bool = True
    beyond: bool = False
    must: bool = False


def resumption(section: Config) -> Resumption:
    """Read ``resume = auto | never | must`` (or true, false) and ``makeMode``.

    Raises:
        OptionError: another word, or one that contradicts ``makeMode``.
    """
    make_mode = section.boolean("makeMode", True)
    value = section.get("resume")
    if value is None or value.is_empty:
        return Resumption(make_mode)
    word = _WORDS.get(value.string().lower())
    if word is None:
        raise OptionError(
            f"resume is '{value.string()}'", where=value.where, hint="It is auto, never or must; true is auto."
        )
    if word == MUST and not make_mode:
        raise OptionError(
            "resume=must goes on with an earlier training, but makeMode=false begins anew",
            where=value.where,
            hint="Give one of them: makeMode=false is resume=never.",
        )
    return Resumption(make_mode and word != NEVER, make_mode and word in (AUTO, MUST), word == MUST)
