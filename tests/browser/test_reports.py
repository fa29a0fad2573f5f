"""Reports as people see them: offline, without complaints, fitting the window; what can be clicked does its work."""

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
    result = butfor.explain(lambda rows: rows[NAME], inputs, butfor.tabular.gaussian(reference))
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("table") / "report.html")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    pytest.importorskip("cv2", reason="the image extra is not installed")
    noise = np.random.default_rng(0).integers(90, 110, (8, 60, 90, 3), dtype=np.uint8)
    noise[:, :20, :20] += 100
    photographs = {f"{k} {NAME}.png": image for k, image in enumerate(noise)}
    boxes = {"bright": (0, 0, 20, 20), "dull": (30, 20, 70, 50)}
    result = butfor.image.explain(
        lambda batch: [x[:20, :20].mean() for x in batch], photographs, butfor.image.donor(), boxes=boxes, alpha=0.2
    )
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("images") / "report.html")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    bed = butfor.simulate.bed("sentences", 0)
    texts = {f"{name} {NAME}": text for name, text in bed.inputs.items()}
    result = butfor.text.explain(bed.model, texts, bed.sampler, alpha=0.2)
    assert result.chosen.any()
    return result.report(tmp_path_factory.mktemp("texts") / "report.html")


@pytest.fixture(params=["table", "images", "texts"])
def report(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_offline_without_complaints_and_never_wider_than_the_window(visit, report, size):
    opened = visit(report, size)
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
