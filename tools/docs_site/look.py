"""Look at the site in a real browser: ``python tools/docs_site/look.py FOLDER`` after ``make site``.

Writes pictures of ten pages, light and dark, wide and narrow, and says what is wrong: a page that is wider than the
window, text with too little contrast (axe-core, where ``axe-playwright-python`` is installed), an error of a script, a
request to another site, a key that does not do what it should. Needs Playwright (``pip install playwright``) and
Chromium, its own or that of the system. Exit status 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = (
    "index.html",
    "readme.html",
    "i-have-arrays.html",
    "plugin-tutorial.html",
    "config-language.html",
    "plan.html",
    "operations/Gelu.html",
    "operations/Times.html",
    "cntk-python-names.html",
    "notebooks/01-first-steps.ipynb.html",
)
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
SERIOUS = ("serious", "critical")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site and says nothing."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Leave out the line for each request."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine while the block runs; gives the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def looked_at(browser: Any, address: str, folder: Path) -> Iterator[str]:
    """Open all pages in all ways, write the pictures, and yield what is wrong."""
    for scheme in SCHEMES:
        for width in WIDTHS:
            window = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
            page = window.new_page()
            seen: list[str] = []
            page.on("pageerror", lambda error, seen=seen: seen.append(f"a script failed: {error}"))
            page.on("request", lambda request, seen=seen: seen.extend(elsewhere(request.url, address)))
            for name in PAGES:
                page.goto(f"{address}/{name}")
                page.screenshot(path=folder / f"{name.replace('/', '-')}-{scheme}-{width}.png")
                where = f"{name}, {scheme}, {width} wide"
                problems = [*seen, *wide(page), *inaccessible(page)]
                yield from (f"{where}: {problem}" for problem in problems)
                seen.clear()
            window.close()


def elsewhere(url: str, address: str) -> list[str]:
    """Return a complaint if a request leaves the site."""
    return [] if url.startswith((address, "data:", "blob:")) else [f"asks another site: {url}"]


def wide(page: Any) -> list[str]:
    """Return a complaint if a page has to be moved sideways."""
    beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [f"{beyond} pixels wider than the window"] if beyond > 0 else []


def inaccessible(page: Any) -> Iterator[str]:
    """Yield what axe-core finds that is serious, contrast among it."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        return
    for found in Axe().run(page).response["violations"]:
        if found["impact"] in SERIOUS:
            places = ", ".join(str(node["target"][0]) for node in found["nodes"][:3])
            yield f"{found['id']}: {found['help']} ({len(found['nodes'])} times: {places})"


def by_keyboard(browser: Any, address: str) -> Iterator[str]:
    """Try the keys, and yield what does not work: the link to the content, the search, the next page.

    The address may be that of a folder, without a server.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    if "skip" not in str(page.evaluate("document.activeElement.className")):
        yield f"{address}: the first Tab does not lead to the link that skips the navigation"
    page.goto(f"{address}/plan.html")
    page.keyboard.press("/")
    page.wait_for_timeout(300)
    if page.evaluate("document.activeElement.tagName") != "INPUT":
        yield f"{address}: '/' does not lead to the search"
    page.keyboard.type("block momentum")
    try:
        page.wait_for_selector(".md-search-result__item a", timeout=10_000)
    except Exception:
        yield f"{address}: the search for 'block momentum' finds nothing"
        return
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    if "plan.html" in page.url:
        yield f"{address}: Enter does not open the first page that was found"


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at the site, and print what is wrong."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--site", type=Path, default=SITE, help="where the site is")
    options = parser.parse_args(arguments)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    with served(options.site) as address, sync_playwright() as playwright:
        system = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        problems = [*by_keyboard(browser, address), *by_keyboard(browser, options.site.resolve().as_uri())]
        problems += looked_at(browser, address, folder)
        browser.close()
    pictures = len(PAGES) * len(SCHEMES) * len(WIDTHS)
    print("\n".join(problems) if problems else f"{pictures} pictures in {folder}, and nothing is wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
