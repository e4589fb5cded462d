"""What is known of each copy: of which content it is one, and how it looked when it was."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import attrs

from cntk_hook_addresses.mirror import Mirror


@attrs.frozen
class Record:
    """A copy that was like the original.

    Attributes:
        mark: of the original: :class:`~cntk_hook_addresses.remote.Found`.
        size: bytes of the copy.
        changed: when the copy was written, in nanoseconds since 1970.
    """

    mark: str
    size: int
    changed: int

    @classmethod
    def of(cls, mark: str, path: Path) -> Record:
        """Return the record of a copy as it is now."""
        status = path.stat()
        return cls(mark, status.st_size, status.st_mtime_ns)

    def is_of(self, path: Path) -> bool:
        """Whether a copy is as it was."""
        try:
            status = path.stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.changed)


@attrs.frozen
class Records:
    """The records of all copies, a small file each. What cannot be read counts as not there."""

    mirror: Mirror

    def file(self, path: Path) -> Path:
        """Where the record of a copy lies."""
        relative = path.relative_to(self.mirror.folder)
        return self.mirror.folder.joinpath(".records", relative.parent, f"{relative.name}.json")

    def read(self, path: Path) -> Record | None:
        """Return the record of a copy."""
        try:
            found = json.loads(self.file(path).read_bytes())
            return Record(str(found["mark"]), int(found["size"]), int(found["changed"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path, record: Record) -> None:
        """Keep a record. Raises OSError."""
        file = self.file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
        try:
            new.write_text(json.dumps(attrs.asdict(record)), encoding="utf-8")
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)

    def remove(self, path: Path) -> None:
        """Forget a copy. Raises OSError."""
        self.file(path).unlink(missing_ok=True)

    def all(self) -> list[tuple[Path, Path]]:
        """Return all copies that have a record, each with the file of that."""
        folder = self.mirror.folder / ".records"
        files = [file for file in folder.rglob("*.json") if file.is_file()]
        return [(self.mirror.folder / file.relative_to(folder).with_suffix(""), file) for file in files]
