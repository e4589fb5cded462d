"""Settings of all tests of the workspace."""

from __future__ import annotations

from hypothesis import settings

# Tests assert no times: a loaded machine may take as long as it likes for one example.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")
