"""The page of a server in a real browser: Chromium, driven by Playwright, where both are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.api.training import Model
from cntk_testing.inside import save_model
from cntk_testing.networks import classifier
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

pytestmark = pytest.mark.thorough

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCHEMES = ("light", "dark")
WIDTHS = (320, 1100)
ENOUGH = 4.5
"""Contrast of text to its background that WCAG 2 asks for."""

CONTRASTS = """
() => {
  const light = color => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = element => {
    const color = getComputedStyle(element).backgroundColor;
    return /, 0\\)$/.test(color) && element.parentElement ? behind(element.parentElement) : color;
  };
  const shown = [...document.querySelectorAll("h1, h2, p, th, td, caption, button, textarea, pre, #state")]
    .filter(element => element.offsetParent && (element.value || element.textContent).trim());
  return shown.map(element => {
    const two = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    return [element.id || element.tagName, (two[0] + 0.05) / (two[1] + 0.05)];
  });
}
"""
"""For each text that is seen, its element and its contrast (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def served(model: Path) -> Iterator[str]:
    """Serve a model as the command does; gives the address."""
    command = [sys.executable, "-m", "cntk_core", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "net.dnn"
    sample = classifier("float32")
    assert sample.criterion is not None
    sample.network.roots["output"] = [sample.criterion.inputs[1]]
    save_model(sample.network, path)
    return path


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    with served(model) as found:
        yield found


@contextmanager
def opened(browser: Any, address: str, width: int = 1100, scheme: str = "light") -> Iterator[Any]:
    """Open the page; whatever the browser complains of is a failure."""
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_function("document.getElementById('data').value")
    yield page
    context.close()
    assert [text for text in complaints if "400 (Bad Request)" not in text] == []


def answer(page: Any) -> Any:
    page.wait_for_selector("#answer:not(:empty)")
    return json.loads("{" + page.inner_text("#answer") + "}")


def test_by_the_keyboard_alone(browser: Any, address: str, model: Path) -> None:
    with opened(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "data"
        for wanted in ("Predict", "Zeros", "Random numbers"):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.textContent") == wanted
        page.keyboard.press("Enter")
        page.get_by_label("Request").focus()
        given = json.loads(page.input_value("#data"))["inputs"]
        assert len(set(given["x"][0])) > 1
        page.keyboard.press("Control+Enter")
        found = answer(page)
        for name, values in Model.load(model).evaluate(given).items():
            np.testing.assert_allclose(found[name], values, rtol=1e-6)
            caption = page.inner_text("caption")
            assert caption == f"{name}, first sample; the largest is at {values[0].argmax()}"
        assert page.get_by_role("status").inner_text().startswith("done in ")
        assert page.locator(".bars tr").count() == 4


def test_a_mistake_is_told(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("button", name="Predict").click()
        answer(page)
        page.get_by_label("Request").fill('{"inputs": {"y": 1}}')
        page.get_by_role("button", name="Predict").click()
        page.wait_for_selector("#error:not(:empty)")
        told = page.get_by_role("alert").inner_text()
        assert told == "there are no values for x\n    The inputs are x [6]."
        assert page.inner_text("#answer") == ""
        assert page.locator(".bars").count() == 0
        assert page.get_by_role("status").inner_text().startswith("400 after ")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_can_be_read(browser: Any, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, width, scheme) as page:
        page.get_by_role("button", name="Random numbers").click()
        page.get_by_role("button", name="Predict").click()
        answer(page)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 20
        assert [one for one in contrasts if one[1] < ENOUGH] == []
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
        assert dark == (scheme == "dark")


def test_a_model_of_sequences_has_an_example_that_works(browser: Any, tmp_path: Path) -> None:
    sample = SEQUENCE_SAMPLES["lstm"]("float32")
    assert sample.criterion is not None
    sample.network.roots["output"] = [sample.criterion.inputs[1]]
    save_model(sample.network, tmp_path / "loop.dnn")
    with served(tmp_path / "loop.dnn") as address, opened(browser, address) as page:
        assert "sequences" in page.inner_text("#nodes")
        page.get_by_role("button", name="Predict").click()
        assert answer(page)
