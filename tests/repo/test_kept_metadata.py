"""Metadata of wheels that is kept between tests is never that of another state of a wheel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

import pytest

from tests.kept_metadata import keep_metadata


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    before = {name: vars(PathDistribution)[name] for name in ("metadata", "entry_points")}
    undo = keep_metadata()
    yield
    undo()
    assert not {"metadata", "entry_points"} & vars(PathDistribution).keys()
    for name, value in before.items():
        setattr(PathDistribution, name, value)


def write(folder: Path, version: str, points: str = "") -> None:
    info = folder / "a_wheel.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: a-wheel\nVersion: {version}\n", encoding="utf-8")
    if points:
        (info / "entry_points.txt").write_text(points, encoding="utf-8")


def only(folder: Path) -> Distribution:
    (found,) = distributions(path=[str(folder)])
    return found


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, "1.0", "[cntk.readers]\na = a_wheel:Reader\n")
    first = only(tmp_path)
    assert (first.version, [point.name for point in first.entry_points]) == ("1.0", ["a"])
    write(tmp_path, "1.0.1", "[cntk.readers]\nother = a_wheel:Reader\n")
    assert (only(tmp_path).version, [point.name for point in only(tmp_path).entry_points]) == ("1.0.1", ["other"])


def test_a_file_that_comes_and_goes(tmp_path: Path) -> None:
    write(tmp_path, "1.0")
    assert list(only(tmp_path).entry_points) == []
    write(tmp_path, "1.0", "[cntk.readers]\na = a_wheel:Reader\n")
    assert [point.name for point in only(tmp_path).entry_points] == ["a"]
    os.remove(tmp_path / "a_wheel.dist-info" / "entry_points.txt")
    assert list(only(tmp_path).entry_points) == []


def test_the_same_file_is_parsed_once(tmp_path: Path) -> None:
    write(tmp_path, "1.0")
    assert only(tmp_path).metadata is only(tmp_path).metadata
