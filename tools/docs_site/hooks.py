"""What MkDocs calls as it builds the site: ``mkdocs.yml`` names this file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))  # MkDocs loads this file alone

from mkdocs.structure.files import File  # noqa: E402

from docs_site import made, operations  # noqa: E402
from docs_site.navigation import INDEX, navigation  # noqa: E402
from docs_site.op_pictures import FRAME  # noqa: E402
from docs_site.pages import for_site, name_on_site, pages  # noqa: E402

DRAWINGS = "docs/drawings"
DRAWING = re.compile(r"^!\[[^\]]*\]\((?:[./]*)drawings/([\w-]+\.svg)\)$", re.MULTILINE)
"""An image on a line of its own that is put into the page, where it takes the colours of the page's scheme."""

NO_SIDEBAR = "---\nhide: [navigation]\n---\n"
"""Above a page that is itself the list of pages."""


def on_config(config: Any) -> Any:
    """Make the navigation."""
    config.nav = navigation(more={operations.LIST: operations.entries()})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what does not lie in ``docs/`` to the files of the site, and what is made."""
    for path, name in pages().items():
        if path == INDEX:
            text = (ROOT / path).read_text(encoding="utf-8")
            put(files, config, name, NO_SIDEBAR + led(files, config, text, path))
        elif path.endswith(".ipynb"):
            text, pictures = made.notebook_page(path)
            put(files, config, name, led(files, config, text, path))
            put(files, config, name_on_site(path).removesuffix(".md"), (ROOT / path).read_bytes())
            for picture, content in pictures.items():
                put(files, config, f"{name.rpartition('/')[0]}/{picture}", content)
        elif path.endswith(".md"):
            put(files, config, name, led(files, config, (ROOT / path).read_text(encoding="utf-8"), path))
        else:
            put(files, config, name, made.folder_page(path))
    for name, text in operations.pages_of_all().items():
        put(files, config, name, text)
    return files


def led(files: Any, config: Any, text: str, path: str) -> str:
    """Return a page with its links led to those of the site; files that it leads to are added."""
    text, others = for_site(text, path)
    if path == operations.LIST:
        text = operations.with_links(text)
    text = DRAWING.sub(lambda match: inline((ROOT / DRAWINGS / match[1]).read_text(encoding="utf-8")), text)
    for other in sorted(others):
        if files.get_file_from_path(name_on_site(other)) is None:
            put(files, config, name_on_site(other), (ROOT / other).read_bytes())
    return text


def inline(drawing: str) -> str:
    """Return a drawing as a block of HTML within Markdown."""
    return f"{FRAME}{''.join(drawing.splitlines())}</div>"


def put(files: Any, config: Any, name: str, content: str | bytes) -> None:
    """Add a file to the site, in place of one of its name."""
    present = files.get_file_from_path(name)
    if present is not None:
        files.remove(present)
    files.append(File.generated(config, name, content=content))
