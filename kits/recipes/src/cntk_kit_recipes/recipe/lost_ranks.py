"""What a run knows of ranks that were lost."""

from __future__ import annotations

import attrs


@attrs.frozen
class Loss:
    """What a job that is done again has to know.

    Attributes:
        said: who was lost, and who is left; empty before the first loss.
        numbers: what the ranks that are left are called by the launcher.
        begun: the job had saved something already.
    """

    said: str = ""
    numbers: tuple[int, ...] = ()
    begun: bool = False
