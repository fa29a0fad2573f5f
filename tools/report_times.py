"""Large reports in a real browser: file size, first paint, time to filter and to open an input.

PYTHONPATH=tests python tools/report_times.py [table] [images]

Screenshots go to the folder REPORT_SHOTS, where it is set.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

import butfor
from browser.conftest import FLAGS

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
TYPED = """text => { const start = performance.now(), box = document.getElementById('search');
  box.value = text; box.dispatchEvent(new Event('input', {bubbles: true})); void document.body.offsetHeight;
  return performance.now() - start; }"""
CLICKED = """element => { const start = performance.now(); element.click(); void document.body.offsetHeight;
  return performance.now() - start; }"""


def table() -> butfor.Result:
    """5,000 inputs x 30 columns with a decision."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=30)
    reference, inputs = rng.normal(size=(1000, 30)), rng.normal(0.4, 1, (5000, 30))
    settings = {"subsets": "columns", "test": "few-shot", "decide": _high, "seed": 0}
    return butfor.explain(lambda rows: rows @ weights, inputs, butfor.tabular.gaussian(reference), **settings)


def _high(outputs: np.ndarray) -> np.ndarray:
    return np.asarray(outputs) > 2


def images() -> butfor.Result:
    """500 images of 320 x 240 with 4 regions."""
    noise = np.random.default_rng(0).integers(60, 130, (500, 240, 320, 3), dtype=np.uint8)
    noise[::2, :120, :160] += 100
    boxes = {"top left": (0, 0, 160, 120), "top right": (160, 0, 320, 120)}
    boxes |= {"below left": (0, 120, 160, 240), "below right": (160, 120, 320, 240)}
    pictures = {f"image {number:03}.png": image for number, image in enumerate(noise)}
    settings = {"boxes": boxes, "test": "few-shot", "seed": 0}
    return butfor.image.explain(_brightness, pictures, butfor.image.donor(), **settings)


def _brightness(batch: list[np.ndarray]) -> list[float]:
    return [float(image[:120, :160].mean()) for image in batch]


KINDS: dict[str, Callable[[], butfor.Result]] = {"table": table, "images": images}


def measure(page: Page, path: Path) -> str:
    """What a reader waits for."""
    start = time.perf_counter()
    page.goto(path.as_uri(), wait_until="load")
    loaded = time.perf_counter() - start
    page.wait_for_function(PAINTED)
    found = [f"{path.stat().st_size / 1e6:.1f} MB", f"first paint {page.evaluate(PAINTED) / 1000:.2f} s"]
    found.append(f"loaded {loaded:.2f} s")
    if page.locator("#search").count():
        found.append(f"filter {page.evaluate(TYPED, '99'):.0f} ms, {page.locator('#count').inner_text()!r}")
        page.evaluate(TYPED, "")
    links = page.locator("#inputs button, #inputs a, .sheet a, [data-input]")
    if links.count() > 1:
        found.append(f"open an input {links.nth(1).evaluate(CLICKED):.0f} ms")
    return ", ".join(found)


def main() -> None:
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        for name in sys.argv[1:] or KINDS:
            result = KINDS[name]()
            start = time.process_time()
            path = Path(result.report(Path(folder) / f"{name}.html"))
            written = time.process_time() - start
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS.split())
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            said = measure(page, path)
            if "REPORT_SHOTS" in os.environ:
                page.screenshot(path=f"{os.environ['REPORT_SHOTS']}/report-{name}.png")
            print(f"{name}: {said}; written in {written:.1f} s of processor time, load {os.getloadavg()[0]:.1f}")

            browser.close()


if __name__ == "__main__":
    main()
