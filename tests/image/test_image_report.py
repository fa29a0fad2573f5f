"""The report of a run on images: pictures inside the file, nothing from the network, tables as before."""

import re
from dataclasses import replace

import numpy as np
import pytest

import butfor
import butfor.image as bi
from butfor.image import view
from butfor.report.write import render
from butfor.results.result import Kept
from butfor.results.summary import probabilities

MASK = np.zeros((24, 24), bool)
MASK[16:, 16:] = True


class Net:
    """Three classes with names that want escaping; class 0 is a bright corner."""

    classes = ("<b>corner</b>", "dark, dim", "never")

    def __call__(self, batch):
        light = np.array([image[:8, :8].mean() / 20 for image in batch])
        return np.stack([light, 12 - light, 0 * light], axis=1)


def pictures(count=6):
    noise = np.random.default_rng(0).integers(90, 110, (count, 24, 36, 3), dtype=np.uint8)
    noise[:, :8, :8] += 100
    return {f"<i>{k}</i>.png": image for k, image in enumerate(noise)}


def result(**settings):
    settings = {"boxes": {"corner": (0, 0, 8, 8), "rest": (8, 8, 20, 20)}, "alpha": 0.2, **settings}
    return bi.explain(Net(), pictures(), bi.donor(), **settings)


@pytest.fixture(scope="module")
def page():
    return render(result())


def test_pictures_are_in_the_file_and_nothing_is_fetched(page):
    sources = re.findall(r'src="([^"]{5})', page) + re.findall(r"url\((.{5})", page)
    assert set(sources) == {"data:"}
    assert page.count("<script") == 3  # data, and our own
    assert "img-src data:" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


def test_names_are_escaped(page):
    assert "<i>0</i>" not in page
    assert "&lt;i&gt;0&lt;/i&gt;.png" in page
    assert "<b>corner</b>" not in page


def test_every_region_is_shown_with_its_counterfactuals(page):
    assert page.count('<details class="photo"') == 6
    assert page.count('type="checkbox"') == 6 * 2 * 3
    assert page.count(">removed<") == 12
    assert re.search(r"probability 0\.\d+ \([+−]\d", page)
    assert re.search(r"takes 0\.\d+ off the probability of ", page)


def test_what_the_view_says_is_what_the_run_found():
    found = result()
    shown = view.pictures(found)
    chosen = [region.chosen for photo in shown.photographs for region in photo.regions]
    assert sorted(chosen) == sorted(view.marked(found).tolist())
    assert shown.photographs[0].prediction.startswith("<b>corner</b>, probability ")
    assert shown.photographs[0].regions[0].where == (0, 0, pytest.approx(100 * 8 / 36), pytest.approx(100 / 3))
    assert all(tile.change.startswith("−") for tile in shown.photographs[0].regions[0].tiles)
    assert all(len(region.tiles) == 3 for photo in shown.photographs for region in photo.regions)


def test_what_stands_under_a_counterfactual_is_what_the_model_says_of_it():
    found = result()
    made = found.counterfactuals("<i>0</i>.png", "corner", n=3)
    given = probabilities(np.concatenate([Net()(made), Net()([pictures()["<i>0</i>.png"]])]))[:, 0]
    region = view.pictures(found).photographs[0].regions[0]
    assert [tile.value for tile in region.tiles] == [f"{value:.3f}" for value in given[:3]]
    assert region.value == f"{given[3]:.3f}"
    assert [tile.picture for tile in region.tiles] == [view.picture_of(image) for image in made]


def test_masks_attributes_and_one_draw_are_shown(tmp_path):
    mask = np.zeros((24, 36), bool)
    mask[:8, :8] = True
    regions = bi.together(bi.masks({"corner": mask}), bi.attributes("colour"))
    found = result(boxes=regions, test="osft")
    page = found.report(tmp_path / "r.html").read_text()
    assert page.count('src="data:image/png') == 6  # the masks
    assert page.count('type="checkbox"') == 12
    assert "colour" in page


def test_a_result_without_its_sampler_still_has_a_report(tmp_path):
    found = result()
    again = butfor.load(found.save(tmp_path / "r.butfor"))
    assert "<h2>The images" not in render(again)


def test_pictures_without_discoveries():
    found = result(alpha=0.01, draws=5)
    assert not found.chosen.any()
    assert view.pictures(found).photographs[0].regions[0].tiles[0].value


def test_regions_whose_counterfactuals_were_not_kept_have_no_tiles():
    found = result()
    half = replace(found, kept=Kept(found.kept.chunks[:6]))
    tiles = [len(region.tiles) for photo in view.pictures(half).photographs for region in photo.regions]
    assert tiles == [3] * 6 + [0] * 6
    picked = replace(found, record=replace(found.record, picked=True))  # most of its draws were rejected
    assert not view.pictures(picked).drawn


def test_a_table_has_no_pictures():
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 1, (12, 2))
    page = render(butfor.explain(lambda x: x[:, 0], rows, rng.normal(size=(200, 2)), test="irt", draws=99))
    assert "img-src" not in page
    assert "photo" not in page
    assert "Which features" in page


def test_probabilities_of_logits_and_of_probabilities():
    assert probabilities(np.array([[1000.0, 0.0]])).tolist() == [[1.0, 0.0]]
    assert probabilities(np.array([[3.5]])).tolist() == [[3.5]]
    assert probabilities(np.array([[0.99, 0.97, 0.05]])).tolist() == [[0.99, 0.97, 0.05]]


def explained(net):
    return bi.explain(net, pictures(3), bi.donor(), boxes={"corner": (0, 0, 8, 8)}, test="osft", alpha=0.2)


def test_outputs_of_many_labels_are_shown_as_they_are():
    """Sigmoids do not sum to one, and their softmax means nothing."""

    class Labels:
        classes = ("cat", "dog", "cow")

        def __call__(self, batch):
            light = np.array([image[:8, :8].mean() / 255 for image in batch])
            return np.stack([light, 0.97 + 0 * light, 0.05 + 0 * light], axis=1)

    shown = view.pictures(found := explained(Labels()))
    assert shown.label == "output"
    assert shown.photographs[0].prediction == "dog, output 0.970"
    assert "dog output 0.970" in render(found)


def test_all_images_of_a_run_are_shown_on_one_scale():
    """Logits that lie between 0 and 1 for one image are still logits, and a class without a name says what it is."""
    first = next(iter(pictures(3).values()))

    def net(batch):
        return [[0.2, 0.9] if (image == first).all() else [4.0, 0.0] for image in batch]

    found = explained(net)
    said = [photo.prediction for photo in view.pictures(found).photographs]
    assert said[:2] == ["class 1, probability 0.668", "class 0, probability 0.982"]


@pytest.mark.parametrize("count", [70])
def test_every_photograph_is_shown_in_pages_those_with_most_found_in_full(count):
    given = [np.zeros((8, 8, 3), np.uint8)] * count
    found = bi.explain(lambda batch: [x.mean() for x in batch], given, bi.donor(), boxes=[(0, 0, 4, 4)], test="osft")
    shown = view.pictures(found)
    assert (len(shown.photographs), shown.more) == (70, 0)
    assert sum(bool(photo.regions[0].tiles) for photo in shown.photographs) == 60
    assert render(found).count('<template class="page">') == 5


def test_implausible_fills_that_make_empty_sky_important_are_told_in_the_promise():
    """The paper's airship: the model has learnt grain, the fill has none, and empty sky is chosen."""
    rng = np.random.default_rng(0)
    sky = [rng.normal(160, 4, (120, 160, 3)).clip(0, 255).astype(np.uint8) for _ in range(5)]

    def grain(batch):
        return [float(np.abs(np.diff(image.astype(float), axis=1)).mean()) for image in batch]

    def flat(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        made = [image.copy() for image in inputs for _ in range(draws)]
        for image in made:
            image[y1:y2, x1:x2] = rng.integers(159, 162)
        return made

    found = bi.explain(grain, sky, flat, boxes={"sky": (40, 30, 100, 80)}, alternative="greater", alpha=0.3, draws=4)
    assert found.chosen.all()
    (judged,) = (caveat for caveat in found.guarantee.caveats if caveat.code == "fills-judged")
    assert judged.severity == "warning"
    assert (judged.values["odd"], judged.values["fills"], judged.values["by_image"]) == (15, 15, True)
    assert "15 of 15 fills look odder than 95 of 100 real ones" in str(judged)
    assert render(found).count("15 of 15 fills look odder") == 1  # once, not under every picture


class CountedNet(Net):
    """Three classes, and how often they were asked for."""

    def __init__(self):
        self.asked = 0

    def __call__(self, batch):
        self.asked += len(batch)
        return super().__call__(batch)


class CountedDonor:
    """A sampler that counts its draws."""

    changes_subset_only = True

    def __init__(self):
        self.asked = 0

    def __call__(self, inputs, subset, draws, rng):
        self.asked += len(inputs) * draws
        return bi.donor()(inputs, subset, draws, rng)


def test_a_result_asks_nobody(tmp_path):
    """Whatever is done with a result: the model and the sampler have had their say."""
    net, sampler = CountedNet(), CountedDonor()
    regions = bi.together(bi.boxes({"corner": (0, 0, 8, 8), "rest": (8, 8, 20, 20)}), bi.attributes("colour"))
    found = bi.explain(net, pictures(), sampler, boxes=regions, alpha=0.2, effects="chosen")
    before = net.asked, sampler.asked
    assert net.asked == found.rows
    page = found.report(tmp_path / "r.html").read_text()
    assert page.count('type="checkbox"') == 6 * 3 * 3
    assert found.summary()
    assert found.notes is not None
    assert found._repr_html_()
    assert found.to_json()
    assert len(found.table) == 18
    assert str(found.guarantee)
    loaded = butfor.load(found.save(tmp_path / "r.butfor"), sampler, pictures())
    for other in (found.select(alpha=0.3), loaded):
        assert other.summary()
        assert other.report(tmp_path / "again.html").read_text().count('type="checkbox"') == 6 * 3 * 3
        assert len(other.counterfactuals("<i>0</i>.png", "corner")) == 3
    assert (net.asked, sampler.asked) == before
    found.counterfactuals("<i>0</i>.png", "corner", n=4)  # more than were kept: the sampler, and never the model
    assert (net.asked, sampler.asked > before[1]) == (before[0], True)


def test_the_demo_tells_a_network_that_sees_tumours_from_one_that_sees_ink():
    from butfor.image.demo import tissue

    demo = tissue(count=10)
    for result, part in ((demo.result, "tumour"), (demo.other, "ink")):
        table = result.table
        assert set(table.subset[table.necessary]) == {part}
        assert table.necessary.sum() == 10
        assert (table.flip[table.subset != part] == 0).all()
    assert "Check: a second network" in demo.summary()
