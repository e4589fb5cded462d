"""Wheels that are not really installed, for the tests beside this file."""

from cntk_testing.wheels_in_a_folder import install, no_switches, site, tools

__all__ = ["install", "no_switches", "site", "tools"]
