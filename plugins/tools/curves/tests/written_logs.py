"""Logs of trainings that are written here, so that their numbers are known."""

from __future__ import annotations

import json
from pathlib import Path


def text_log(path: Path, epochs: int = 3, command: str = "Train", lead: str = "") -> Path:
    """A text log: the criterion of epoch n is 2/n, the error 50/n percent, half of each on the validation set."""
    lines = ["#" * 78, f"# {command} command (train action) {'':30} #", "#" * 78]
    for number in range(1, epochs + 1):
        for last in (10, 20):
            loss = 2 / (number - 1 + last / 20)
            lines.append(
                f" Epoch[{number:2} of {epochs}]-Minibatch[{last - 9:4}-{last:4}, {5 * last:.2f}%]: "
                f"ce = {loss:.8f} * 320; errs = {25 * loss:.3f}% * 320; time = 0.1000s; samplesPerSecond = 3200.0"
            )
        lines.append(
            f"Finished Epoch[{number:2} of {epochs}]: [Training] ce = {2 / number:.8f} * 640; "
            f"errs = {50 / number:.3f}% * 640; totalSamplesSeen = {640 * number}; "
            f"learningRatePerSample = {0.1 / number:.8g}; epochTime=0.25s"
        )
        lines.append(
            f"Finished Epoch[{number:2} of {epochs}]: [Validate] ce = {1 / number:.8f} * 64; "
            f"errs = {25 / number:.3f}% * 64"
        )
    path.write_text("".join(f"{lead}{line}\n" for line in lines), encoding="utf-8")
    return path


def json_log(path: Path, epochs: int = 3, job: str = "Train", **more) -> Path:
    """The JSON log of the same training."""
    told = [{"event": "job_begin", "time": 0.0, "job": job, "version": 1}]
    for number in range(1, epochs + 1):
        told.append({"event": "epoch_begin", "job": job, "epoch": number})
        told += [reading(job, number, last) for last in (10, 20)]
        told.append(
            {
                "event": "epoch_end",
                "job": job,
                "epoch": number,
                "criteria": {"ce": 2 / number, "errs": 0.5 / number},
                "validation": {"ce": 1 / number, "errs": 0.25 / number},
                "learningRatePerSample": 0.1 / number,
                "seconds": 0.25,
                **more,
            }
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in told), encoding="utf-8")
    return path


def reading(job: str, number: int, last: int) -> dict:
    loss = 2 / (number - 1 + last / 20)
    criteria = {"ce": loss, "errs": loss / 4}
    return {"event": "minibatch", "job": job, "epoch": number, "minibatch": last, "criteria": criteria}
