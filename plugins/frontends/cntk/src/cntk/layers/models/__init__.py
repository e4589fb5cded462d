"""Models: attention."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.layers.models.attention import AttentionModel as AttentionModel

inherit(__name__)
