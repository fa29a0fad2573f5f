"""Pictures: the right colours in the right places, at any size."""

import numpy as np
import pytest

import butfor.image as bi
from butfor import Subset
from butfor.image.view import BLUE, GREY, Cell, Mark, heat, lit_and_marks, marked_photograph, photograph

IMAGE = np.full((60, 80, 3), 90, np.uint8)
BOX, MASK = Subset("box 1", (10, 10, 40, 40)), Subset("mask 1", np.pad(np.ones((20, 20), bool), ((35, 5), (50, 10))))


def share(picture, colour):
    return float((np.abs(picture.astype(int) - colour).max(axis=2) < 10).mean())


@pytest.mark.parametrize("subset", [BOX, MASK], ids=["box", "mask"])
@pytest.mark.parametrize(("chosen", "colour", "other"), [(True, BLUE, GREY), (False, GREY, BLUE)])
def test_chosen_is_blue_and_the_rest_grey(subset, chosen, colour, other):
    picture = photograph(IMAGE, [Mark(subset, "1.25", chosen)], side=400)
    assert picture.shape == (300, 400, 3)
    assert share(picture, colour) > 0.005
    assert share(picture, other) == 0
    assert (IMAGE == 90).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (7, 9), (2000, 1500)])
def test_any_size_is_drawn_readably(shape):
    image = np.zeros((*shape, 3), np.uint8)
    picture = photograph(image, [Mark(Subset("a", (0, 0, 1, 1)), "-12.34", True)], side=300)
    assert max(picture.shape[:2]) == 300
    assert share(picture, BLUE) > 0


def test_a_label_does_not_hide_a_small_region():
    image = np.full((300, 400, 3), 90, np.uint8)
    image[100:130, 200:240] = (0, 250, 0)
    picture = photograph(image, [Mark(Subset("a", (195, 95, 245, 135)), "4.98", True)], side=400)
    assert (picture[105:125, 205:235] == (0, 250, 0)).all()


def test_labels_do_not_cover_each_other():
    boxes = [Subset(str(k), (20 + 4 * k, 20, 23 + 4 * k, 23)) for k in range(4)]
    alone = [share(photograph(IMAGE, [Mark(box, "8.88", True)]), BLUE) for box in boxes]
    together = share(photograph(IMAGE, [Mark(box, "8.88", True) for box in boxes]), BLUE)
    assert together > 0.9 * sum(alone)


def written(marks, image, k):
    """Where the k-th text stands, in a picture of the image's own size."""
    side = max(image.shape[:2])
    bare = [Mark(mark.subset, "", mark.chosen) for mark in marks]
    texts = [mark if j == k else bare[j] for j, mark in enumerate(marks)]
    return (photograph(image, texts, side=side) != photograph(image, bare, side=side)).any(axis=2)


@pytest.mark.parametrize("count", [3, 8])
def test_a_number_stands_in_its_own_region(count):
    image = np.full((540, 720, 3), 90, np.uint8)
    marks = [Mark(subset, f"-{k + 1}.25", k % 2 == 0) for k, subset in enumerate(bi.grid(count)("a", image))]
    for k in (0, len(marks) // 2, len(marks) - 1):
        where = written(marks, image, k)
        assert where.any()
        assert not (where & ~bi.region.mask_of(marks[k].subset, 540, 720)).any()


def test_a_number_in_a_bow_stands_on_the_bow():
    """The middle of a region that bends lies in what it bends around."""
    image = np.full((300, 300, 3), 90, np.uint8)
    bow = np.ones((300, 300), bool)
    bow[60:, 60:240] = False
    marks = [Mark(Subset("bow", bow), "1.25", True), Mark(Subset("inner", (60, 60, 240, 300)), "2.50", False)]
    for k, region in enumerate((bow, ~bow)):
        assert written(marks, image, k).any()
        assert not (written(marks, image, k) & ~region).any()


def test_a_number_without_a_place_is_left_out():
    image = np.full((200, 200, 3), 90, np.uint8)
    subsets = bi.grid(20)("a", image)  # cells of 10 x 10 pixels
    marks = [Mark(subset, "-12.34", True) for subset in subsets]
    assert not written(marks, image, 45).any()
    assert written(marks[:1], image, 0).any()  # beside it, where no region is
    assert not (written(marks[:1], image, 0) & bi.region.mask_of(subsets[0], 200, 200)).any()


def test_masks_of_the_same_name_are_drawn():
    one, two = np.zeros((2, 60, 80), bool)
    one[:20], two[40:] = True, True
    marks = [Mark(Subset("part", mask), "1.25", True) for mask in (one, two)]
    assert share(photograph(IMAGE, marks), BLUE) > 0.005


def test_attributes_stand_below():
    marks = [Mark(subset, "0.5", True) for subset in bi.attributes("colour", "texture", "greyscale")("x", IMAGE)]
    picture = photograph(IMAGE, marks, side=200)
    assert picture.shape[0] > 150
    assert share(picture[:150], BLUE) == 0
    assert share(picture[150:], BLUE) > 0.1


def test_a_heat_map_lights_what_is_chosen_the_finer_the_more():
    image = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    cells = [Cell(Subset("left", (0, 0, 8, 16)), 0.5), Cell(Subset("corner", (0, 0, 4, 4)), 1.0, lowers=True)]
    lit = heat(image, cells).astype(int)
    rest = lit[:, 8:]
    assert (np.ptp(rest, axis=2) <= 1).all()  # grey
    assert rest.min() >= 140  # and pale
    near = np.abs(lit - image).mean(axis=2)
    assert near[:4, :4].mean() < near[:, 8:].mean()
    blue, orange = (lit[4:, :8] - image[4:, :8]).mean(axis=(0, 1)), (lit[:4, :4] - image[:4, :4]).mean(axis=(0, 1))
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]
    np.testing.assert_array_equal(heat(image, cells[::-1]), heat(image, cells))


def test_what_is_not_chosen_has_a_faint_veil_of_its_estimate():
    image = np.full((16, 16, 3), 120, np.uint8)
    cell = Subset("corner", (0, 0, 4, 4))
    plain, blue, half = (
        heat(image, cells).astype(int)
        for cells in ([], [Cell(cell, 1.0, estimate=1.0)], [Cell(cell, 1.0, estimate=0.5)])
    )
    lit = heat(image, [Cell(cell, 1.0)]).astype(int)
    assert (blue[4:] == plain[4:]).all()
    assert blue[0, 0, 2] > blue[0, 0, 0]  # the hue of what raises
    assert np.abs(half - plain).sum() < np.abs(blue - plain).sum() < np.abs(lit - plain).sum()
    orange = heat(image, [Cell(cell, 1.0, lowers=True, estimate=1.0)]).astype(int)
    assert orange[0, 0, 0] > orange[0, 0, 2]


def test_a_run_from_coarse_to_fine_is_shown_as_a_heat_map(tmp_path):
    """Was wrong once: every cell of every resolution was outlined, drawn or not."""
    from butfor import sequential

    noise = np.random.default_rng(0).integers(90, 110, (4, 32, 32, 3), dtype=np.uint8)
    noise[:, :8, :8] += 100

    def fill(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        out = [one.copy() for one in inputs for _ in range(draws)]
        for one in out:
            one[y1:y2, x1:x2] = rng.integers(90, 110, (y2 - y1, x2 - x1, 3))
        return out

    light = lambda batch: [one[:8, :8].mean() for one in batch]  # noqa: E731
    result = bi.explain(
        light, list(noise), fill, boxes=bi.zoom(8), test=sequential(3, draws=800), alternative="greater"
    )
    rows = np.flatnonzero(result.input_of == 0)
    lit, marks = lit_and_marks(result, noise[0], rows)
    assert [mark.subset.index for mark in marks] == [(0, 0, 8, 8)]
    assert (np.ptp(lit[16:, 16:].astype(int), axis=2) <= 1).all()
    assert marked_photograph(result, 0, side=200).shape == (200, 200, 3)
    every = bi.explain(
        light, list(noise), fill, boxes=bi.zoom(8), test=sequential(3, draws=800), alternative="greater", effects="all"
    )
    known, marks = lit_and_marks(every, noise[0], rows)
    assert [mark.subset.index for mark in marks] == [(0, 0, 8, 8)]
    assert (known[:8, :8] == lit[:8, :8]).all()  # what is chosen looks the same
    assert (known[16:, 16:] == lit[16:, 16:]).all()  # and so does what has no effect
    for one, said in ((result, False), (every, True)):
        page = one.report(tmp_path / f"{said}.html").read_text(encoding="utf-8")
        assert "From coarse to fine: what is unusual keeps its colours" in page
        assert ("A faint veil is the estimated effect" in page) == said
