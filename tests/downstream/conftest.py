"""Five wheels as strangers have written them. Their tests run where they are installed, not from here."""

from __future__ import annotations

collect_ignore_glob = ["*/tests/*"]
