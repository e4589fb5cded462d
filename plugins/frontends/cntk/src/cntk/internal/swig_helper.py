"""The name under which the original has its decorators of calls; they are in :mod:`cntk.internal`."""

from __future__ import annotations

from cntk.internal import map_if_possible as map_if_possible
from cntk.internal import typemap as typemap
