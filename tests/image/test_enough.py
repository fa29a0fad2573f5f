"""What is enough for the decision on an image: which regions are kept, and how the rest is redrawn."""

import numpy as np
import pytest

import butfor
from butfor.image import donor, grid, judge, zoom
from butfor.image.region import rest_of
from butfor.types import InputError, Subset

RNG = np.random.default_rng(0)
NOISE = RNG.integers(90, 110, (6, 24, 24, 3), dtype=np.uint8)


def bright(images):
    """Two classes: whether a corner is bright."""
    seen = np.array([max(one[:8, :8].mean(), one[16:, 16:].mean()) > 150 for one in images])
    return np.stack([~seen, seen], axis=1).astype(float)


def picture(*corners):
    image = NOISE[0].copy()
    for corner in corners:
        image[corner, corner] += 100
    return image


BOTH = {"both": picture(slice(0, 8), slice(16, 24)), "none": picture()}


def test_either_corner_is_enough_and_most_images_are_dark():
    result = butfor.image.explain(bright, BOTH, donor(list(NOISE[1:]), own=0), boxes=grid(3), enough=0.9)
    told = result.enough().set_index("input")
    corners = {("row 1 column 1",), ("row 3 column 3",)}
    assert {told.loc["both", "columns"], *told.loc["both", "alternatives"]} >= corners
    assert told.loc["none", "columns"] == ()
    assert "no region needed for 1" in str(result)


def test_a_base_rate_that_cannot_be_drawn_is_said_not_to_be_known():
    result = butfor.image.explain(bright, {"both": BOTH["both"]}, donor(), boxes=grid(3), enough=0.9)
    assert np.isnan(result.sets.base).all()
    assert "base rate not known" in str(result)
    assert len(result.enough()) == 1


def test_cells_of_zoom_are_as_small_as_they_are_few():
    one = {"one": picture(slice(0, 8))}
    result = butfor.image.explain(bright, one, donor(list(NOISE[1:]), own=0), boxes=zoom(3), enough=0.9)
    assert all(name.endswith("of 4 x 4") for one in result.sets.sets for name in one.columns)


def test_of_many_regions_those_that_move_the_output_most_are_tried():
    one = {"one": picture(slice(0, 4))}

    def model(images):
        p = np.array([one[:4, :4].mean() / 255 for one in images])
        return np.stack([1 - p, p], axis=1)

    result = butfor.image.explain(
        model, one, donor(list(NOISE[1:]), own=0), boxes=grid(6), enough=0.9, test=butfor.irt(19)
    )
    assert len(result.table) == 36
    assert result.enough()["columns"].tolist() == [("row 1 column 1",)]


def test_the_rest_is_all_that_is_not_kept():
    image, left = NOISE[0], Subset("left", (0, 0, 12, 24))
    mask = np.zeros((24, 24), bool)
    mask[:, 12:] = True
    assert (rest_of(image, [left]) == mask).all()
    assert rest_of(image, []).all()
    assert rest_of(image, [left, Subset("right", mask)]) is None


def test_a_sampler_that_returns_the_image_itself_where_no_fill_passes_is_refused():
    with pytest.raises(InputError, match="returns the input itself where no draw passes; drop enough="):
        butfor.image.explain(bright, BOTH, butfor.plausible(donor(), judge, 0.05), enough=0.9)
