"""How many examples hypothesis tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypothesis import settings

_WHOLE = 100
"""Examples of hypothesis's own profile."""
_LEAST = 5


def examples(count: int, **others: Any) -> settings:
    """Return settings for a property that is tried on ``count`` examples in a whole run.

    Where the loaded profile has fewer examples than hypothesis's own 100, the count shrinks with it, so that one
    profile makes a whole suite quick. ``others`` are further settings.
    """
    from hypothesis import settings

    assert settings.default is not None
    share = min(settings.default.max_examples, _WHOLE)
    return settings(max_examples=max(count * share // _WHOLE, min(count, _LEAST)), **others)
