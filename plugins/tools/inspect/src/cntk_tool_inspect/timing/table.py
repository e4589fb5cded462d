"""A profile as text: parts of a step, the steps of the plan, lines of the recipe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cntk_core.api.engines import describe_step, places_of_step
from cntk_tool_inspect.timing.measure import BETWEEN, READER, UPDATE, WHOLE, Profile, Share

_SMALL = 0.002
"""Steps with a smaller share of the whole are added up in one line."""

_COLUMN = 60
"""Characters of the column with the steps."""


def table(profile: Profile) -> list[str]:
    """Return the lines that show a profile."""
    title = (
        f"{profile.section}: a step of training with engine={profile.engine}, {profile.rows:.4g} samples a minibatch "
        f"(mean of {profile.steps} steps)"
    )
    return [title, "", *_parts(profile), "", *_steps(profile), "", *_lines(profile)]


def _parts(profile: Profile) -> Iterator[str]:
    remarks = {
        READER: "waiting for minibatches",
        BETWEEN: "inputs taken in, rates, sums of criteria",
        UPDATE: "of what is not updated together with its gradient",
        WHOLE: "the engine does not tell what its steps take",
    }
    yield f"  {'part':<12}{'ms':>9}{'%':>7}"
    for part in dict.fromkeys(share.part for share in profile.shares):
        seconds, remark = profile.part(part), remarks.get(part, "")
        yield f"  {part:<12}{1e3 * seconds:9.3f}{_percent(seconds, profile):7.1f}   {remark}".rstrip()
    yield (
        f"  {'together':<12}{1e3 * profile.seconds:9.3f}{100:7.1f}   {1e3 * profile.unwatched:.3f} ms without a clock "
        "at each step"
    )


def _percent(seconds: float, profile: Profile) -> float:
    return 100 * seconds / profile.seconds if profile.seconds else 0.0


def _steps(profile: Profile) -> Iterator[str]:
    shares = sorted((each for each in profile.shares if each.step is not None), key=lambda each: -each.seconds)
    if not shares:
        return
    yield f"  {'ms':>8}{'%':>7}{'GFLOP/s':>9}{'GB/s':>8}  step of the plan"
    small = [each for each in shares if each.seconds < _SMALL * profile.seconds]
    for share in shares:
        if share not in small:
            yield _step_line(share, profile)
    if small:
        seconds = sum(each.seconds for each in small)
        yield f"  {1e3 * seconds:8.3f}{_percent(seconds, profile):7.1f}{'':>9}{'':>8}  {len(small)} smaller ones"


def _step_line(share: Share, profile: Profile) -> str:
    assert share.step is not None
    places = " ".join(str(place) for place in places_of_step(share.step)[:1])
    return (
        f"  {1e3 * share.seconds:8.3f}{_percent(share.seconds, profile):7.1f}{_speed(share.operations, share):>9}"
        f"{_speed(share.moved, share):>8}  {describe_step(share.step):<{_COLUMN}}  {places}"
    ).rstrip()


def _speed(amount: float | None, share: Share) -> str:
    return "" if amount is None or not share.seconds else f"{amount / share.seconds / 1e9:.1f}"


def by_line(profile: Profile) -> dict[tuple[str, int], float]:
    """Return the seconds of each line of a recipe, by file and line; a step of several lines is shared among them."""
    found: dict[tuple[str, int], float] = defaultdict(float)
    for share in profile.shares:
        places = places_of_step(share.step) if share.step is not None else ()
        for place in places:
            found[place.file, place.line] += share.seconds / len(places)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _lines(profile: Profile) -> Iterator[str]:
    lines = by_line(profile)
    if not lines:
        return
    yield f"  {'ms':>8}{'%':>7}  line of the recipe"
    for (file, line), seconds in lines.items():
        yield f"  {1e3 * seconds:8.3f}{_percent(seconds, profile):7.1f}  {file}:{line}: {text_of(file, line)}".rstrip()


def text_of(file: str, line: int) -> str:
    """Return what stands in a line of a recipe; nothing if the file is not there."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return text if len(text) <= 72 else f"{text[:69]}..."
