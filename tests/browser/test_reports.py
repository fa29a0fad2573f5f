"""Reports as people see them: offline, without complaints, fitting the window; what can be clicked does its work."""

from base64 import b64encode
from io import BytesIO

import numpy as np
import pandas as pd
import pytest

import butfor
from browser.conftest import NARROW, WIDE

NAME = "a name that is far too long for a narrow column of a table, and_goes_on_without_a_single_space_in_it"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    names = [NAME, "b", "c"]
    reference = pd.DataFrame(rng.normal(size=(300, 3)), columns=names)
    inputs = pd.DataFrame(rng.normal([4, 0, 0], 1, (30, 3)), columns=names, index=[f"{NAME} {k}" for k in range(30)])
    decide = lambda outputs: outputs > 2  # noqa: E731
    result = butfor.explain(lambda rows: rows[NAME], inputs, butfor.tabular.gaussian(reference), decide=decide)
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("table") / "report.html")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    pytest.importorskip("cv2", reason="the image extra is not installed")
    noise = np.random.default_rng(0).integers(90, 110, (8, 60, 90, 3), dtype=np.uint8)
    noise[:, :20, :20] += 100
    photographs = {f"{k} {NAME}.png": image for k, image in enumerate(noise)}
    boxes = {"bright": (0, 0, 20, 20), "dull": (30, 20, 70, 50)}
    settings = {"boxes": boxes, "alpha": 0.2, "test": "few-shot"}
    result = butfor.image.explain(
        lambda batch: [x[:20, :20].mean() for x in batch], photographs, butfor.image.donor(), **settings
    )
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("images") / "report.html")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    bed = butfor.simulate.bed("sentences", 0)
    texts = {f"{name} {NAME}": text for name, text in bed.inputs.items()}
    result = butfor.text.explain(bed.model, texts, bed.sampler, alpha=0.2, test="few-shot")
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("texts") / "report.html")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=[NAME, "b", "c"])
    result = butfor.global_importance(lambda rows: rows[NAME], rows, y=rows[NAME])
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("features") / "report.html")


@pytest.fixture(params=["table", "images", "texts", "features"])
def report(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow and dark"])
def test_offline_without_complaints_and_never_wider_than_the_window(visit, report, size, scheme):
    opened = visit(report, size, scheme)
    opened.page.wait_for_load_state("networkidle")
    assert opened.elsewhere() == []
    assert opened.complaints == []
    assert opened.overflow() <= 0
    for details in opened.page.query_selector_all("details:not([open]) > summary"):
        details.click()
    assert opened.overflow() <= 0


def seen(element):
    """What is on the screen there, as numbers."""
    from PIL import Image

    return np.asarray(Image.open(BytesIO(element.screenshot())).convert("RGB"), np.float64)


def test_a_click_shows_the_original_in_the_place_of_a_counterfactual(visit, images):
    page = visit(images).page
    region = page.locator(".region.yes").first
    original, counterfactual = region.locator(".frame").first, region.locator("label.frame").first
    as_it_is, drawn = seen(original), seen(counterfactual)
    bright = np.s_[5 : as_it_is.shape[0] // 4, 5 : as_it_is.shape[1] // 6]
    assert as_it_is[bright].mean() - drawn[bright].mean() > 50  # donors are dull
    counterfactual.click()
    assert np.abs(seen(counterfactual)[bright] - as_it_is[bright]).mean() < 5
    counterfactual.click()
    page.mouse.move(0, 0)
    assert np.abs(seen(counterfactual)[bright] - drawn[bright]).mean() < 5


def test_the_keyboard_does_so_too(visit, images):
    page = visit(images).page
    box = page.locator(".region.yes label.frame input").first
    box.focus()
    page.keyboard.press("Space")
    assert box.is_checked()


def test_the_contact_sheet_leads_to_the_photograph(visit, images):
    page = visit(images).page
    assert page.locator("#photo-8").bounding_box()["y"] > WIDE[1]
    page.locator(".sheet a").nth(7).click()
    assert page.locator("#photo-8").bounding_box()["y"] < WIDE[1]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_pointing_at_a_word_shows_its_figures_inside_the_window(visit, texts, size):
    page = visit(texts, size).page
    words = page.locator(".words [tabindex]")
    for word in (words.first, words.last):
        tip = word.locator(".tip")
        assert not tip.is_visible()
        word.hover()
        assert tip.is_visible()
        shown = tip.bounding_box()
        assert shown["x"] >= 0
        assert shown["x"] + shown["width"] <= size[0]
        page.mouse.move(0, 0)
        assert not tip.is_visible()
        word.focus()
        assert tip.is_visible()
        page.locator("h1").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, report, axe, scheme):
    page = visit(report, scheme=scheme).page
    for details in page.query_selector_all("details:not([open]) > summary"):
        details.click()
    page.evaluate(axe)  # run by the driver, beside the page's own policy
    found = page.evaluate("async () => (await axe.run()).violations.map(v => [v.impact, v.id, v.nodes[0].html])")
    assert [one for one in found if one[0] in ("serious", "critical")] == []


def test_search_filter_sort_and_arrow_keys(visit, table):
    page = visit(table).page
    rows = page.locator("#inputs tbody tr")
    assert rows.count() == 20
    page.locator("#after").click()
    assert rows.count() == 10
    page.locator("#search").fill(f"{NAME} 17")
    assert rows.count() == 1
    page.locator("#search").fill("")
    page.locator("#filter").select_option("none")
    nothing = page.locator("#count").inner_text()
    page.locator("#filter").select_option("sure")
    sure = page.locator("#count").inner_text()
    assert int(nothing.split()[0]) + int(sure.split()[0]) <= 30
    page.locator("#filter").select_option("")
    heading = page.locator('#inputs th[data-by="effect"]')
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    sizes = [
        abs(float(text.replace("−", "-"))) for text in page.locator("#inputs tbody td:nth-child(5)").all_inner_texts()
    ]
    assert sizes == sorted(sizes, reverse=True)
    rows.first.click()
    name = page.locator("#full h3").first.inner_text()
    assert name == rows.first.locator("th").inner_text()
    page.locator('#inputs tbody tr[aria-selected="true"]').focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#full h3").first.inner_text() == rows.nth(1).locator("th").inner_text() != name


def test_one_input_in_full_says_the_same_with_and_without_the_script(visit, table):
    numbers = "#full tbody td:nth-child(2)"
    plain = visit(table, java_script_enabled=False).page
    assert plain.locator("#inputs tbody tr").count() == 20
    without, name = plain.locator(numbers).all_inner_texts(), plain.locator("#full h3").inner_text()
    page = visit(table).page
    page.locator("#search").fill(name)
    page.locator("#inputs tbody tr").first.click()
    assert sorted(page.locator("#full .lines").first.locator("td:nth-child(2)").all_inner_texts()) == sorted(without)


HOSTILE = [
    "<script>window.bad=1</script>",
    '"><img src=x onerror="window.bad=1">',
    "javascript:window.bad=1",
    "\u202e</script>\uff1cscript\uff1e<script>window.bad=1//\u2028",
]


def test_hostile_names_never_run(visit, tmp_path):
    rng = np.random.default_rng(0)
    reference = pd.DataFrame(rng.normal(size=(100, 4)), columns=HOSTILE)
    inputs = pd.DataFrame(
        rng.normal(3, 1, (24, 4)), columns=HOSTILE, index=[f"{HOSTILE[k % 4]} {k}" for k in range(24)]
    )

    class Model:
        classes_ = np.array(HOSTILE[:2])

        def predict_proba(self, rows):
            p = 1 / (1 + np.exp(-rows[HOSTILE[0]] - rows[HOSTILE[1]]))
            return np.column_stack([1 - p, p])

    of_table = butfor.explain(Model(), inputs, reference)
    path = of_table.report(tmp_path / "r.html")
    texts = {name: f"a {name} b" for name in HOSTILE}

    def sampler(texts, subset, draws, rng):
        start, end = subset.index
        return [text[:start] + HOSTILE[rng.integers(1, 3)] + text[end:] for text in texts for _ in range(draws)]

    result = butfor.text.explain(lambda batch: [float(len(text)) for text in batch], texts, sampler, alpha=0.5, draws=3)
    notebook = tmp_path / "notebook.html"  # what a notebook puts into its page
    shown = (
        of_table,
        result,
        butfor.text.marked(result),
        butfor.global_importance(Model(), inputs, reference=reference),
    )
    notebook.write_text("<!doctype html><meta charset=utf-8>" + "".join(one._repr_html_() for one in shown))
    for page in (path, result.report(tmp_path / "t.html"), notebook):
        opened = visit(page)
        for k in range(0 if page == notebook else 4):
            opened.page.locator("#inputs tbody tr").nth(k).click()
        assert opened.page.evaluate("window.bad") is None
        assert opened.complaints == []
        assert opened.elsewhere() == []
        assert opened.page.locator("img[onerror]").count() == 0


def test_what_is_folded_unfolds_and_nothing_is_hidden_without_the_script(visit, tmp_path):
    rng = np.random.default_rng(0)
    result = butfor.explain(
        lambda rows: rows[:, 0], rng.normal([4] + 15 * [0], 1, (25, 16)), rng.normal(size=(200, 16)), subsets="columns"
    )
    path = result.report(tmp_path / "report.html")

    def lines(page):
        return page.locator("#full .lines").first.locator("tbody tr:visible").count()

    page = visit(path).page
    assert lines(page) == 12
    page.locator("#full button.unfold").click()
    assert lines(page) == 16
    page.locator("#next-input").click()
    assert lines(page) == 12
    page.locator("#full button.unfold").click()
    assert lines(page) == 16
    assert lines(visit(path, java_script_enabled=False).page) == 16


def test_words_are_not_broken_on_a_telephone(visit, table):
    """Names stand above their numbers there: as wide as the page, not in a column of three letters."""
    page = visit(table, NARROW).page
    for place in ("#full .lines tbody th", ".tree tbody th", ".card .lines tbody th", "#inputs tbody th"):
        assert page.locator(place).first.bounding_box()["width"] > 250, place
    cut = page.evaluate(
        "[...document.querySelectorAll('.lines, .list')].filter(t => t.scrollWidth > innerWidth).length"
    )
    assert cut == 0


def test_in_a_sandboxed_frame_as_of_mlflow(visit, table, tmp_path):
    """Scripts run there, storage, downloads and fragments do not: buttons work, and a link goes where it says."""
    page = tmp_path / "artifact.html"
    page.write_text(
        "<body><iframe sandbox='allow-scripts' width=1000 height=700></iframe><pre hidden></pre><script>"
        f"const text = new TextDecoder().decode(Uint8Array.from(atob('{b64encode(table.read_bytes()).decode()}'), "
        "c => c.charCodeAt(0))); document.querySelector('iframe').src = "
        "URL.createObjectURL(new Blob([text], {type: 'text/html'}));</script>",
        encoding="utf-8",
    )
    opened = visit(page)
    frame = opened.page.wait_for_selector("iframe").content_frame()
    frame.wait_for_selector("#next-input")
    before = frame.inner_text("#one, main")
    frame.click("#next-input")
    assert frame.inner_text("#one, main") != before
    frame.focus("a.skip")
    opened.page.keyboard.press("Enter")
    assert frame.evaluate("document.activeElement.id") == "answer"
    assert opened.complaints == []
