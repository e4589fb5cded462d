"""What a run knows of ranks that were lost, and of those that have come."""

from __future__ import annotations

import attrs


@attrs.frozen
class Loss:
    """What a job that is done again has to know.

    Attributes:
        said: who was lost or has come, and who goes on; empty before that.
        numbers: what the ranks that are left are called by the launcher.
        begun: the job had saved something already.
        is_late: this rank has come to the job when others had begun it.
    """

    said: str = ""
    numbers: tuple[int, ...] = ()
    begun: bool = False
    is_late: bool = False
