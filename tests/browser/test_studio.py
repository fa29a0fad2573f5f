"""The whole way of a new user in a real browser, with pictures of it kept in build/screenshots."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor
from browser.conftest import NARROW, WIDE

pytest.importorskip("fastapi", reason="the studio extra is not installed")
pytest.importorskip("cv2", reason="the image extra is not installed")
from studio_server import serving

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "screenshots"
HOSTILE = '"><img src=x onerror=window.hacked=1><script>window.hacked=1</script>'
DECODED = "Promise.all([...document.images].map((one) => one.decode())).then(() => true)"
LOOKS = [(size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    rng = np.random.default_rng(0)
    names = [HOSTILE, "b"]
    reference = pd.DataFrame(rng.normal(size=(200, 2)), columns=names)
    rows = pd.DataFrame(rng.normal([5, 0], 1, (25, 2)), columns=names, index=[f"{HOSTILE} {k}" for k in range(25)])
    result = butfor.explain(lambda x: x[HOSTILE], rows, butfor.tabular.gaussian(reference), subsets="columns")
    place = folder / "a <script>window.hacked=1<&"
    place.mkdir()
    result.save(place / "result.butfor")
    weaker = butfor.explain(
        lambda x: x[HOSTILE] + x["b"], rows - 3, butfor.tabular.gaussian(reference), subsets="columns"
    )
    (folder / "three less").mkdir()
    weaker.save(folder / "three less" / "result.butfor")
    config = {"model": [{"name": HOSTILE, "kind": kind, "model": "x.py:f", "about": HOSTILE} for kind in KINDS]}
    (folder / "studio.json").write_text(json.dumps(config))
    with serving(folder) as found:
        yield found


KINDS = ("table", "image", "text")


class Visit:
    """A page of the studio, and everything that went on."""

    def __init__(self, browser, served, size=WIDE, scheme="light", touch=False):
        viewport = {"width": size[0], "height": size[1]}
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, has_touch=touch, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.served, self.asked, self.complaints = served, [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.set_default_timeout(60_000)
        self.page.goto(served.link())
        self.page.wait_for_selector("h1")

    def elsewhere(self):
        return [url for url in self.asked if not url.startswith((self.served.url, "data:", "blob:"))]

    def go(self, place):
        self.page.goto(f"{self.served.url}/{place}")
        self.page.wait_for_selector("h1")

    def picture(self, name):
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"studio-{name}.png", full_page=True)

    def drag(self, box, x1, y1, x2, y2):
        """Shares of a shape that is seen."""
        mouse = self.page.mouse
        mouse.move(box["x"] + x1 * box["width"], box["y"] + y1 * box["height"])
        mouse.down()
        mouse.move(box["x"] + (x1 + x2) / 2 * box["width"], box["y"] + (y1 + y2) / 2 * box["height"])
        mouse.move(box["x"] + x2 * box["width"], box["y"] + y2 * box["height"])
        mouse.up()

    def check(self):
        """Nothing asked of others, nothing complained of, nothing executed, nothing wider than the window."""
        assert self.elsewhere() == []
        assert self.complaints == []
        assert self.page.evaluate("window.hacked") is None
        assert self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.fixture
def visit(browser, served):
    opened = []

    def visit(*given, **more):
        opened.append(Visit(browser, served, *given, **more))
        return opened[-1]

    yield visit
    for one in opened:
        one.context.close()


def finished(page):
    page.wait_for_selector(".badge.done", timeout=240_000)
    page.wait_for_selector(".found .legend")


@pytest.fixture(scope="module")
def image_run(browser, served):
    """Open, upload, draw three boxes, run: the address of the finished run."""
    visit = Visit(browser, served)
    page = visit.page
    visit.picture("start")
    page.get_by_role("link", name="An image").click()
    from butfor.studio.settings import tissue_png

    given = {"name": f"{HOSTILE[:40]}.png", "mimeType": "image/png", "buffer": tissue_png()}
    page.locator("input[type=file]").set_input_files(given)
    layer = page.locator("svg.boxes")
    layer.scroll_into_view_if_needed()
    box = layer.bounding_box()
    visit.drag(box, 0.58, 0.16, 0.86, 0.54)  # the dark cluster
    visit.drag(box, 0.1, 0.1, 0.28, 0.36)
    visit.drag(box, 0.14, 0.64, 0.38, 0.9)
    assert page.locator("rect.box").count() == 3
    page.get_by_label("Name of box 1").fill("dark nuclei")
    page.get_by_label("Name of box 1").press("Tab")
    page.get_by_label("Model", exact=True).select_option("Demo: tissue")
    visit.picture("image-drawn")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".found rect.box")  # what was drawn, while it runs
    visit.picture("image-running")
    finished(page)
    address = page.url
    visit.check()
    visit.context.close()
    return address.split("/", 3)[3]


def test_an_image_from_upload_to_export(visit, image_run, tmp_path):
    here = visit()
    here.go(image_run)
    page = here.page
    finished(page)
    assert page.locator("rect.box.yes").count() == 1
    assert page.locator("rect.box.no").count() == 2
    assert "dark nuclei" in page.locator("rect.box.yes").get_attribute("aria-label")
    assert page.locator(".opened img").count() == 3  # the first that is established is open
    page.locator("rect.box.no").first.click()
    page.locator("rect.box.yes").click()
    drawn = page.locator(".opened img")
    assert drawn.count() == 3
    drawn.last.scroll_into_view_if_needed()
    page.evaluate(DECODED)
    here.picture("image-found")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export the report").click()
    report = tmp_path / "report.html"
    download.value.save_as(report)
    assert "dark nuclei" in report.read_text(encoding="utf-8")
    page.get_by_text("The whole report").click()
    page.frame_locator("iframe.report").locator("h1").first.wait_for()
    here.check()


def test_a_table_from_upload_to_export(visit):
    here = visit()
    page = here.page
    page.get_by_role("link", name="A table").click()
    page.get_by_role("button", name="try the example").click()
    page.get_by_text("184 rows to compare with, 20 rows to explain.").wait_for()
    page.get_by_label("What to test").select_option("own")
    groups = [
        "size: worst radius",
        "shape: worst concave points, worst symmetry",
        "texture: worst texture, texture error",
    ]
    page.get_by_label("Groups").fill("\n".join(groups))
    page.get_by_label("Model", exact=True).select_option("Demo: tumours")
    here.picture("table-asked")
    page.get_by_role("button", name="Run", exact=True).click()
    finished(page)
    assert page.locator(".answer .track").count() > 0  # the picture of the answer comes first
    assert page.locator("td .chip.yes").count() > 0
    page.locator("td .chip.yes").first.click()
    assert page.locator(".opened td").count() >= 5
    here.picture("table-found")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export the report").click()
    assert download.value.suggested_filename.endswith(".html")
    here.check()


def test_a_prompt_from_passages_to_what_is_enough(visit):
    here = visit()
    page = here.page
    page.get_by_role("link", name="A prompt").click()
    page.get_by_role("button", name="Try the example").click()
    page.wait_for_timeout(500)
    assert "Ottawa" in page.locator("textarea").first.input_value()
    page.get_by_label("Model", exact=True).select_option("Demo: codes of offices")
    here.picture("prompt")
    page.get_by_role("button", name="Run", exact=True).click()
    finished(page)
    assert page.locator(".found .chip").count() == 9
    assert "passage 6 or passage 8" in page.locator(".page").text_content()
    page.locator(".found .chip").nth(5).click()
    assert page.locator(".opened td").count() >= 2
    here.picture("prompt-answered")
    assert here.complaints == []


def test_a_text_from_marking_to_export(visit):
    here = visit()
    page = here.page
    page.get_by_role("link", name="A text").click()
    page.get_by_label("Texts, one a line").fill(f"It was a dreadful \N{CRYING FACE} and boring film. {HOSTILE[:24]}")
    words = page.locator(".marking .word")
    for place in (3, 5):  # after a character that is two for JavaScript and one for Python
        box = words.nth(place).bounding_box()
        here.drag(box, 0.02, 0.5, 0.98, 0.5)
    assert page.locator(".word.marked").all_text_contents() == ["dreadful", "boring"]
    page.get_by_role("button", name="Undo").click()
    assert page.locator(".word.marked").count() == 1
    page.locator(".marking").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator(".word.marked").all_text_contents() == ["dreadful", "film"]
    page.get_by_label("Model", exact=True).select_option("Demo: film reviews")
    page.get_by_label("Sampler").select_option("plain words")
    here.picture("text-marked")
    page.get_by_role("button", name="Run", exact=True).click()
    finished(page)
    assert page.locator(".found-word").all_text_contents() == ["dreadful", "film"]
    assert page.locator(".found-word.yes").all_text_contents() == ["dreadful"]
    page.locator(".found-word.yes").click()
    assert "dreadful" not in page.locator(".opened td").first.text_content()
    here.picture("text-found")
    with page.expect_download():
        page.get_by_role("link", name="Export the report").click()
    here.check()


def boxes(page):
    names = ("x", "y", "width", "height")
    return [[float(one.get_attribute(name)) for name in names] for one in page.locator("rect.box").all()]


def test_boxes_by_keyboard_mouse_and_undo(visit):
    here = visit()
    page = here.page
    here.go("#/new/image")
    page.get_by_role("button", name="try the example").click()
    page.get_by_role("button", name="Add box").click()
    start = boxes(page)[0]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    assert boxes(page)[0] == [start[0] + 1, start[1] + 10, start[2], start[3]]
    page.keyboard.press("Alt+Shift+ArrowLeft")
    assert boxes(page)[0][2] == start[2] - 10
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert boxes(page)[0] == [start[0] + 1, *start[1:]]
    seen = page.locator("rect.box").bounding_box()
    here.drag(seen, 0.5, 0.5, 0.8, 0.5)  # moved by the mouse
    moved = boxes(page)[0]
    assert moved[0] > start[0] + 10
    assert moved[2:] == start[2:]
    corner = page.locator("circle.corner.se").bounding_box()
    here.drag(corner, 0.5, 0.5, 4, 4)
    assert boxes(page)[0][2] > moved[2]
    page.locator("rect.box").focus()
    page.keyboard.press("Delete")
    assert boxes(page) == []
    page.get_by_role("button", name="Undo").click()
    assert len(boxes(page)) == 1
    here.check()


def test_boxes_by_touch(visit):
    here = visit(NARROW, touch=True)
    page = here.page
    here.go("#/new/image")
    page.get_by_role("button", name="try the example").click()
    page.locator("svg.boxes").scroll_into_view_if_needed()
    seen = page.locator("svg.boxes").bounding_box()
    device = here.context.new_cdp_session(page)
    x, y = seen["x"] + 20, seen["y"] + 20
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x + 50, "y": y + 40}]),
        ("touchMove", [{"x": x + 100, "y": y + 80}]),
        ("touchEnd", []),
    ):
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_selector("rect.box")
    assert len(boxes(page)) == 1
    here.check()


def test_hostile_names_are_only_words(visit):
    here = visit()
    page = here.page
    page.get_by_role("link", name="a <script>").click()
    page.wait_for_selector(".found .legend")
    page.locator("td .chip.yes").first.click()
    assert HOSTILE in page.locator(".opened").text_content()
    page.get_by_text("The whole report").click()
    page.frame_locator("iframe.report").locator("h1").first.wait_for()
    for kind in KINDS:
        here.go(f"#/new/{kind}")
        assert HOSTILE in page.get_by_label("Model", exact=True).text_content()
    here.go("#/new/table")
    rows = f'"{HOSTILE.replace(chr(34), chr(34) * 2)}",b\n1,<script>window.hacked=1</script>\n'
    given = {"name": f"{HOSTILE[:60]}.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    page.locator("input[type=file]").set_input_files(given)
    page.get_by_text("has 1 rows").wait_for()
    page.get_by_label("Rows to compare with").fill(HOSTILE)
    page.get_by_label("Rows to explain").click()
    page.locator(".counted.wrong").wait_for()
    here.complaints = [text for text in here.complaints if "422" not in text]  # Chromium notes every refusal
    here.check()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_two_runs_beside_each_other(visit, size, scheme):
    here = visit(size, scheme)
    here.page.get_by_role("link", name="Compare", exact=True).click()
    first, second = here.page.get_by_label("First"), here.page.get_by_label("Second")
    first.locator("option", has_text="three less").wait_for(state="attached")
    assert first.input_value() != second.input_value()  # a run beside itself tells nothing
    titles = first.locator("option").all_inner_texts()
    strong, weak = (next(title for title in titles if name in title) for name in ("script", "three less"))
    second.select_option(label=weak)
    first.select_option(label=strong)
    here.page.wait_for_selector("td:has-text('only in the first')")
    rows = here.page.locator("table tbody tr")
    rows.nth(24).wait_for(state="attached")  # of these two: another pair stood there before
    assert "only in the first" in rows.first.inner_text()  # where they differ stands first
    assert rows.count() >= 25
    here.picture(f"compare-{size[0]}-{scheme}")
    here.check()


def test_a_page_of_a_closed_studio_says_so(visit):
    here = visit()
    here.context.clear_cookies()
    here.page.get_by_role("link", name="Compare", exact=True).click()
    here.page.get_by_role("alert").get_by_text("studio that was closed").wait_for()


@pytest.mark.parametrize(("size", "scheme"), LOOKS, ids=lambda value: str(value))
def test_it_fits_the_window_in_light_and_dark(visit, image_run, size, scheme):
    here = visit(size, scheme)
    for name, place in {"start": "#/", "image": "#/new/image", "found": image_run, "api": "#/interface"}.items():
        here.go(place)
        if name == "image":
            here.page.get_by_role("button", name="try the example").click()
            here.page.get_by_role("button", name="Add box").click()
        if name == "found":
            finished(here.page)
            here.page.locator(".chip.yes").first.click()
            here.page.evaluate(DECODED)
        here.picture(f"{name}-{size[0]}-{scheme}")
        here.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, image_run, axe, scheme):
    here = visit(scheme=scheme)
    page = here.page
    for place in (
        "#/",
        "#/new/image",
        "#/new/table",
        "#/new/text",
        "#/new/context",
        "#/compare",
        "#/interface",
        image_run,
    ):
        here.go(place)
        if place in ("#/new/image", "#/new/table"):
            page.get_by_role("button", name="try the example").click()
            page.locator("svg.boxes, table").first.wait_for()
        if place == "#/new/image":
            page.get_by_role("button", name="Add box").click()
        if place in ("#/new/text", "#/new/context"):
            page.get_by_role("button", name="Try the example").click()
        if place == image_run:
            finished(page)
            page.locator(".chip.yes").first.click()
        page.evaluate(axe)  # through the debugger: the page's own policy forbids it
        found = page.evaluate("axe.run({iframes: false}).then((found) => found.violations)")
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(place, one["id"], one["nodes"][0]["html"]) for one in serious] == []
