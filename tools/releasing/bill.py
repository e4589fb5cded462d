"""The bill of materials of a release: what ``cntk-toolkit[all]`` brings, with versions and licences, as CycloneDX."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from releasing.staging import ReleaseError


def write_bill(python: Path, file: Path, time: int) -> int:
    """Write the bill of an environment, the same bytes for the same versions; return how many components it has.

    Args:
        python: of the environment.
        file: where it goes.
        time: seconds since 1970, which the bill has.

    Raises:
        ReleaseError: it cannot be written.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-format", "JSON", "--output-reproducible"]
    done = subprocess.run([*command, str(python)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise ReleaseError(f"no bill of materials: {done.stderr}")
    bill: dict[str, Any] = json.loads(done.stdout)
    bill.setdefault("metadata", {})["timestamp"] = datetime.fromtimestamp(time, UTC).isoformat()
    file.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return len(bill.get("components", ()))
