"""What a sweep keeps of a point: a file in its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from cntk_core.api import DataError

NAME = "point.json"
OUTPUT = "output.txt"
"""What the training of a point has printed."""

VERSION = 1

BEGUN, DONE, FAILED = "begun", "done", "failed"


@attrs.frozen
class PointFile:
    """What is known of a point.

    Attributes:
        values: by the path of the key, ``Train:SGD:minibatchSize``.
        recipe: a short text that changes with the recipe and the values that all points have.
        state: ``begun``, ``done`` or ``failed``; one that is begun and does not run was killed.
        code: exit status of its last run.
    """

    values: Mapping[str, str]
    recipe: str
    state: str = BEGUN
    code: int = 0

    def write(self, folder: Path) -> None:
        """Write it into the folder of the point, at once and whole.

        Raises:
            OSError: it cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{NAME}.new"
        told = {"version": VERSION, **attrs.asdict(self)}
        new.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(new, folder / NAME)

    @classmethod
    def read(cls, folder: Path) -> PointFile | None:
        """Read it; None where there is none.

        Raises:
            DataError: it is none of ours.
        """
        path = folder / NAME
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return cls(dict(told["values"]), str(told["recipe"]), str(told["state"]), int(told["code"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"'{path}' is no file of a sweep: {type(error).__name__}: {error}",
                hint="Remove the folder, and its point is trained again; or give the sweep another one with -o.",
            ) from None
