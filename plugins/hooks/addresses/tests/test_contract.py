"""What is true of every wheel."""

from __future__ import annotations

from cntk_testing import WheelContract


class TestWheel(WheelContract):
    distribution = "cntk-hook-addresses"

    def test_the_store_waits(self) -> None:
        """fsspec is imported when an address is named, not before."""
        from cntk_testing.fresh_imports import modules_after_importing

        assert not {"fsspec", "filelock"} & modules_after_importing("cntk_hook_addresses.store")
