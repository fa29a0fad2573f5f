"""The documentation site as people see it: offline, without complaints, fitting the window, usable by everybody."""

import pytest

from browser.conftest import NARROW, WIDE
from docs_site import build

SHOWN = ["index", "which-question", "guide", "which-test", "coming-from", "api/results"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("docs"))


def complaints(opened):
    return [said for said in opened.complaints if not said.startswith("[PST]")]  # the theme tells its mode


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", SHOWN)
def test_offline_without_complaints_and_never_wider_than_the_window(visit, site, name, size):
    opened = visit(site / f"{name}.html", size)
    opened.page.wait_for_timeout(200)  # what scripts would still ask for; "networkidle" is missed on a busy machine
    assert opened.elsewhere() == []
    assert complaints(opened) == []
    assert opened.overflow() <= 0


def test_the_questions_of_the_start_page_stand_in_the_first_screen(visit, site):
    opened = visit(site / "index.html", WIDE)
    cards = opened.page.locator(".questions > ul > li")
    assert cards.count() == 6
    boxes = [cards.nth(k).bounding_box() for k in range(6)]
    assert max(box["y"] + box["height"] for box in boxes) <= WIDE[1]


def test_the_figures_turn_with_the_switch_between_light_and_dark(visit, site):
    opened = visit(site / "which-test.html", WIDE)
    ink = "getComputedStyle(document.querySelector('svg.which text')).fill"
    inks = []
    for mode in ("light", "dark"):
        opened.page.evaluate(f"document.documentElement.dataset.theme = '{mode}'")
        inks.append(opened.page.evaluate(ink))
    assert inks[0] != inks[1]


def test_the_search_finds_a_page_without_a_server(visit, site):
    opened = visit(site / "search.html", WIDE)
    opened.page.goto(f"{(site / 'search.html').as_uri()}?q=knockoffs")
    opened.page.wait_for_selector("#search-results li a")
    assert opened.elsewhere() == []
    assert "coming-from.html" in opened.page.inner_html("#search-results")


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", SHOWN)
def test_axe_finds_no_serious_violation(visit, site, name, mode, axe):
    opened = visit(site / f"{name}.html", WIDE)
    opened.page.evaluate(f"document.documentElement.dataset.theme = '{mode}'")
    opened.page.wait_for_timeout(300)  # colours fade over
    opened.page.evaluate(axe)
    found = opened.page.evaluate("async () => (await axe.run()).violations")
    grave = {one["id"]: one["nodes"][0]["html"] for one in found if one["impact"] in ("serious", "critical")}
    assert grave == {}
