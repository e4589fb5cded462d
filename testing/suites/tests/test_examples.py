"""How many examples hypothesis tries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from cntk_testing.examples import examples


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Iterator[None]:
    """A profile with so many examples."""
    before = settings.default
    settings.register_profile("tried here", max_examples=request.param)
    settings.load_profile("tried here")
    yield
    settings.register_profile("as before", before)
    settings.load_profile("as before")


@pytest.mark.parametrize(
    ("profile", "counts"),
    [(100, [200, 40, 3]), (1000, [200, 40, 3]), (20, [40, 8, 3]), (1, [5, 5, 3])],
    indirect=["profile"],
)
def test_a_profile_with_fewer_examples_shrinks_all_counts(profile: None, counts: list[int]) -> None:
    assert [examples(count).max_examples for count in (200, 40, 3)] == counts


def test_other_settings_are_kept() -> None:
    made = examples(7, suppress_health_check=[HealthCheck.too_slow])
    assert made.suppress_health_check == (HealthCheck.too_slow,)
    assert made.deadline == settings.default.deadline
