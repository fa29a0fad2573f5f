"""Scores of counterfactuals, moved boxes, attributes."""

from types import SimpleNamespace

import numpy as np
import pytest

import butfor
import butfor.image as bi
from butfor import ModelError, Subset
from butfor.evaluation.samplers import info_of
from butfor.image.attributes import WithAttributes
from butfor.image.plausibility import FLAG, among, conformal
from butfor.image.ranks import DIAGONALS, Sensitivity, Shifted, shift


def sky(seed, height=160, width=220):
    """A gradient with soft clouds, the noise of a camera and, below, something dark."""
    import cv2

    rng = np.random.default_rng(seed)
    y = np.mgrid[:height, :width][0]
    clouds = cv2.GaussianBlur(rng.normal(0, 1, (height, width)).astype(np.float32), (0, 0), 12) * 180
    pixels = np.stack([120 + 0.3 * y + clouds, 150 + 0.2 * y + clouds, 200 + clouds * 0.5], axis=2)
    pixels[int(0.85 * height) :] = 40
    return np.clip(pixels + rng.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)


EMPTY = Subset("empty sky", (60, 30, 130, 90))


def painted(image, kind):
    """The empty part of the sky as a poor inpainter might leave it."""
    x1, y1, x2, y2 = EMPTY.index
    out = image.copy()
    part = out[y1:y2, x1:x2]
    if kind == "blotch":  # the paper's airship: a dark thing in empty sky
        y, x = np.mgrid[: y2 - y1, : x2 - x1]
        part[((y - 30) / 18) ** 2 + ((x - 35) / 25) ** 2 < 1] = (60, 50, 40)
    elif kind == "texture":
        part[:] = np.random.default_rng(9).integers(60, 220, part.shape)
    elif kind == "flat":
        part[:] = part.mean(axis=(0, 1))
    elif kind == "seam":
        part[:] = np.clip(part.astype(int) + 25, 0, 255)
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["flat", "texture", "seam"])
def test_an_implausible_fill_of_empty_sky_is_flagged(seed, kind):
    image = sky(seed)
    assert bi.judge(image, EMPTY).look(painted(image, kind)).flagged


@pytest.mark.parametrize("seed", range(4))
def test_a_thing_in_empty_sky_is_told_by_its_texture_and_may_well_be_real(seed):
    """One image cannot say whether it belongs there: boxes that people draw have things in them."""
    image = sky(seed)
    look = bi.judge(image, EMPTY).look(painted(image, "blotch"))
    assert look.texture < FLAG
    assert not look.flagged


def test_real_sky_and_a_fill_like_it_are_not():
    plausible = 0
    for seed in range(12):
        image = sky(seed)
        judge = bi.judge(image, EMPTY)
        plausible += not judge.look(image).flagged
        score = judge([image])[0]
        assert 0 < score <= 1
    assert plausible >= 10


def test_what_was_there_is_not_looked_at():
    image = sky(0)
    other = painted(image, "texture")
    np.testing.assert_array_equal(bi.judge(image, EMPTY)([image]), bi.judge(other, EMPTY)([image]))


def stones(seed):
    """A picture of soft and hard things, in some of which something stands out."""
    import cv2

    rng = np.random.default_rng(seed)
    picture = cv2.GaussianBlur(rng.normal(0, 1, (200, 260, 3)).astype(np.float32), (0, 0), 6) * 400 + 120
    for _ in range(4):
        x, y = (int(v) for v in rng.integers(20, 180, 2))
        cv2.circle(picture, (x, y), int(rng.integers(8, 22)), rng.integers(0, 255, 3).tolist(), -1)
    return np.clip(picture + rng.normal(0, 3, picture.shape), 0, 255).astype(np.uint8)


def run_of(count=24):
    """Images and three regions of each: what a run brings to the judge."""
    rng = np.random.default_rng(7)
    corners = rng.integers(5, (190, 140), (count, 3, 2)).tolist()
    subsets = [[Subset(f"{k}", (x, y, x + 50, y + 45)) for k, (x, y) in enumerate(own)] for own in corners]
    return [stones(seed) for seed in range(count)], subsets


def spoilt(image, subset, kind):
    import cv2

    x1, y1, x2, y2 = subset.index
    out = image.copy()
    part = out[y1:y2, x1:x2]
    if kind == "seam":
        part[:] = np.clip(part.astype(int) + 25, 0, 255)
    elif kind == "blur":
        part[:] = cv2.GaussianBlur(part, (0, 0), 3)
    elif kind == "texture":
        part[:] = np.random.default_rng(1).integers(0, 255, part.shape)
    return out


@pytest.fixture(scope="module")
def looks():
    images, subsets = run_of()
    judges = among(images, subsets)
    every = [(image, subset) for image, own in zip(images, subsets, strict=True) for subset in own]
    return judges, [(image, subset, judges(image, subset)) for image, subset in every]


def test_real_regions_of_a_run_are_flagged_at_the_stated_rate(looks):
    flags = [own.look(image).flagged for image, _, own in looks[1]]
    assert 0 < np.mean(flags) <= 0.05


@pytest.mark.parametrize("kind", ["seam", "blur", "texture"])
def test_planted_faults_are_flagged(looks, kind):
    assert np.mean([own.look(spoilt(image, subset, kind)).flagged for image, subset, own in looks[1]]) >= 0.8


def test_a_judge_of_a_run_does_not_look_at_what_is_in_the_region(looks):
    images, subsets = run_of()
    before = among(images, subsets)
    subset = subsets[0][0]
    images[0] = spoilt(images[0], subset, "texture")
    after = among(images, subsets)
    apart = [one(image, subset) for one, image in ((before, stones(0)), (after, images[0]))]
    np.testing.assert_array_equal(apart[0].real, apart[1].real)
    np.testing.assert_array_equal(*(own([stones(0)]) for own in apart))


def test_scores_are_conformal_p_values_whatever_the_numbers_are():
    """Exchangeable items: a score of at most u has a probability of at most u, on tied numbers, too."""
    rng = np.random.default_rng(0)
    for make in (rng.standard_cauchy, lambda shape: rng.integers(0, 3, shape).astype(float)):
        scores = np.array([conformal(every[0], every[1:])[0] for every in (make((40, 4)) for _ in range(400))])
        for u in (0.05, 0.1, 0.5):
            assert (scores <= u).mean() <= u + 3 * np.sqrt(u * (1 - u) / 400)
    one = conformal(np.array([5.0, 0, 0, 0]), np.tile(np.arange(39.0)[:, None] / 39, (1, 4)))[0]
    assert one <= 2 / 40  # extreme in one number


def test_fills_that_fail_are_drawn_again_and_what_is_left_counts_against_a_discovery():
    image, subset = sky(0), EMPTY
    smear, asked = painted(image, "texture"), []

    def sometimes(inputs, subset, draws, rng):
        asked.append(draws)
        return [smear if rng.random() < 0.5 else inputs[0].copy() + np.uint8(0) for _ in range(draws)]

    only = butfor.plausible(sometimes, bi.judge, 0.05, tries=20)
    made = only([image], subset, 8, np.random.default_rng(0))
    assert all((fill == image).all() for fill in made)
    assert asked[0] == 8 > asked[1] > 0
    never = butfor.plausible(lambda inputs, subset, draws, rng: [smear] * draws, bi.judge, 0.05, tries=3)
    assert all((fill == image).all() for fill in never([image], subset, 4, np.random.default_rng(0)))
    asked.clear()
    assert all((fill == smear).all() for fill in only([smear], subset, 4, np.random.default_rng(0)))
    assert not asked  # a region that does not pass as it is is not drawn at all
    assert only.notes([smear], [[subset]], 0)[0].code == "untested-regions"


@pytest.mark.parametrize("box", [(0, 0, 220, 160), (0, 0, 219, 160), (5, 5, 6, 6), (0, 0, 30, 30), (10, 0, 200, 159)])
def test_regions_at_the_edge_and_all_of_the_image(box):
    image = sky(1)
    found = bi.judge(image, Subset("a", box)).look(image)
    assert 0 < found.score <= 1
    tiny = image[:2, :3]
    assert bi.judge(tiny, Subset("a", (0, 0, 1, 1)))([tiny]).tolist() == [1.0]  # nothing to compare with


def test_the_airship(assets):
    """The sky of the paper's photograph: MI-GAN and the sky itself pass, what is painted over does not."""
    image = bi.read_image(assets / "paper" / "img46.jpg")
    subset = Subset("sky", (11, 21, 227, 165))
    judge = bi.judge(image, subset)
    poor = image.copy()
    poor[60:130, 60:180] = np.clip(image[240:310, 60:180].astype(int), 0, 255)  # houses in the sky
    flat = image.copy()
    flat[21:165, 11:227] = flat[21:165, 11:227].mean(axis=(0, 1))
    scores = judge([image, poor, flat])
    assert scores[0] >= FLAG
    assert scores[2] < FLAG
    assert judge.look(poor).texture < FLAG  # told, but houses may well stand there
    fill = bi.onnx_inpainter(assets / "migan_pipeline_v2.onnx", threads=1)([image], subset, 1, np.random.default_rng(0))
    assert judge(fill)[0] >= FLAG


# Sensitivity


def test_boxes_move_diagonally_and_stay_inside():
    image = np.zeros((20, 30, 3), np.uint8)
    boxes = bi.boxes({"a": (0, 0, 5, 5), "b": (25, 15, 30, 20), "c": (0, 8, 30, 12)})
    moved = [[s.index for s in Shifted(boxes, 2 * x, 2 * y)("x", image)] for x, y in DIAGONALS]
    assert moved[0] == [(0, 0, 5, 5), (23, 13, 28, 18), (0, 6, 30, 10)]
    assert moved[1] == [(2, 0, 7, 5), (25, 13, 30, 18), (0, 6, 30, 10)]
    assert moved[2] == [(0, 2, 5, 7), (23, 15, 28, 20), (0, 10, 30, 14)]
    assert moved[3] == [(2, 2, 7, 7), (25, 15, 30, 20), (0, 10, 30, 14)]


def test_masks_move_and_attributes_stay():
    mask = np.zeros((4, 5), bool)
    mask[0, 0] = mask[2, 3] = True
    moved = shift(Subset("m", mask), 1, -1, 4, 5).index
    assert np.argwhere(moved).tolist() == [[1, 4]]
    assert shift(Subset("m", mask), 9, 9, 4, 5).index is mask
    (colour,) = bi.attributes("colour")("x", np.zeros((4, 5, 3), np.uint8))
    assert shift(colour, 1, 1, 4, 5) is colour


@pytest.mark.parametrize(
    ("selections", "iou"),
    [
        ([[1, 1, 0, 0], [1, 0, 1, 0]], 1 / 3),
        ([[0, 0], [0, 0]], 1),
        ([[1, 0], [0, 1]], 0),
        ([[1, 0], [1, 0], [1, 1]], (1 + 0.5 + 0.5) / 3),
    ],
)
def test_mean_pairwise_iou_by_hand(selections, iou):
    runs = tuple(SimpleNamespace(chosen=np.array(chosen, bool)) for chosen in selections)
    assert Sensitivity(runs, 1).iou == pytest.approx(iou)


# Attributes


@pytest.mark.parametrize("name", ["colour", "greyscale", "texture"])
@pytest.mark.parametrize("shape", [(40, 60), (1, 1), (3, 50), (17, 2)])
def test_attributes_are_drawn(name, shape):
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    (subset,) = bi.attributes(name)("x", image)
    kept = image.copy()
    one, two = WithAttributes(bi.donor())([image], subset, 2, np.random.default_rng(1))
    assert one.shape == image.shape
    assert one.dtype == np.uint8
    assert (image == kept).all()
    if min(shape) > 10:
        assert (one != two).any()
        assert (one != image).any()
    again = WithAttributes(bi.telea())([image], subset, 1, np.random.default_rng(1))
    np.testing.assert_array_equal(again[0], one)


def test_what_an_attribute_keeps():
    image = sky(0)
    (texture, grey) = bi.attributes("texture", "greyscale")("x", image)
    made = WithAttributes(bi.donor())([image], texture, 1, np.random.default_rng(0))[0]
    coarse = [picture.reshape(16, 10, 22, 10, 3).mean(axis=(1, 3)) for picture in (image, made)]
    assert np.abs(coarse[0] - coarse[1]).mean() < 3  # colours and outlines stay
    made = WithAttributes(bi.donor())([image], grey, 1, np.random.default_rng(0))[0]
    assert (made[..., 0] == made[..., 1]).all()


def test_attributes_of_a_user_s_own():
    image = sky(0)
    sampler = WithAttributes(bi.donor())

    def subset(transform):
        return bi.attributes(mine=transform)("x", image)[0]

    def writes(image, rng):
        image[:] = 0
        return image

    sampler([image], subset(writes), 1, np.random.default_rng(0))
    assert image.any()
    for wrong in (
        lambda image, rng: image[:3],
        lambda image, rng: None,
        lambda image, rng: 1 / 0,
        lambda image, rng: image / 2,
    ):
        with pytest.raises(ModelError, match="attribute 'mine'"):
            sampler([image], subset(wrong), 1, np.random.default_rng(0))
    assert not info_of(sampler).deterministic
    assert info_of(WithAttributes(bi.telea())).deterministic
