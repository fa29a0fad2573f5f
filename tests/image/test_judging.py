"""Scores of counterfactuals, moved boxes, attributes."""

import numpy as np
import pytest

import butfor.image as bi
from butfor import InputError, ModelError, Subset
from butfor.core.draw.samplers import info_of
from butfor.image.plausibility import FLAG
from butfor.image.shifts import iou, shift


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
@pytest.mark.parametrize("kind", ["blotch", "texture", "seam"])
def test_an_implausible_fill_of_empty_sky_is_flagged(seed, kind):
    image = sky(seed)
    assert bi.judge(image, EMPTY).look(painted(image, kind)).flagged


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


@pytest.mark.parametrize("box", [(0, 0, 220, 160), (0, 0, 219, 160), (5, 5, 6, 6), (0, 0, 30, 30), (10, 0, 200, 159)])
def test_regions_at_the_edge_and_all_of_the_image(box):
    image = sky(1)
    found = bi.judge(image, Subset("a", box)).look(image)
    assert 0 < found.score <= 1
    tiny = image[:2, :3]
    assert bi.judge(tiny, Subset("a", (0, 0, 1, 1)))([tiny]).tolist() == [1.0]  # nothing to compare with


def test_the_airship(assets):
    """The sky of the paper's photograph: MI-GAN and the sky itself pass, what is painted over or pasted in does not."""
    image = bi.read_image(assets / "paper" / "img46.jpg")
    subset = Subset("sky", (11, 21, 227, 165))
    judge = bi.judge(image, subset)
    poor = image.copy()
    poor[60:130, 60:180] = np.clip(image[240:310, 60:180].astype(int), 0, 255)  # houses in the sky
    flat = image.copy()
    flat[21:165, 11:227] = flat[21:165, 11:227].mean(axis=(0, 1))
    scores = judge([image, poor, flat])
    assert scores[0] >= FLAG
    assert (scores[1:] < FLAG).all()
    fill = bi.onnx_inpainter(assets / "migan_pipeline_v2.onnx", threads=1)([image], subset, 1, np.random.default_rng(0))
    assert judge(fill)[0] >= FLAG


# Sensitivity


def test_boxes_move_diagonally_and_stay_inside():
    image = np.zeros((20, 30, 3), np.uint8)
    boxes = bi.boxes({"a": (0, 0, 5, 5), "b": (25, 15, 30, 20), "c": (0, 8, 30, 12)})
    moved = [[s.index for s in some("x", image)] for some in bi.shifted(boxes, 2)]
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


def test_iou_by_hand():
    assert iou([1, 1, 0, 0], [1, 0, 1, 0]) == 1 / 3
    assert iou([0, 0], [0, 0]) == 1
    assert iou([1, 0], [0, 1]) == 0
    assert bi.mean_pairwise_iou([[1, 0], [1, 0], [1, 1]]) == pytest.approx((1 + 0.5 + 0.5) / 3)
    for wrong in ([[1, 0]], [[1, 0], [1]], [[[1]], [[1]]]):
        with pytest.raises(InputError):
            bi.mean_pairwise_iou(wrong)


# Attributes


@pytest.mark.parametrize("name", ["colour", "greyscale", "texture"])
@pytest.mark.parametrize("shape", [(40, 60), (1, 1), (3, 50), (17, 2)])
def test_attributes_are_drawn(name, shape):
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    (subset,) = bi.attributes(name)("x", image)
    kept = image.copy()
    one, two = bi.with_attributes()([image], subset, 2, np.random.default_rng(1))
    assert one.shape == image.shape
    assert one.dtype == np.uint8
    assert (image == kept).all()
    if min(shape) > 10:
        assert (one != two).any()
        assert (one != image).any()
    again = bi.with_attributes(bi.telea())([image], subset, 1, np.random.default_rng(1))
    np.testing.assert_array_equal(again[0], one)


def test_what_an_attribute_keeps():
    image = sky(0)
    (texture, grey) = bi.attributes("texture", "greyscale")("x", image)
    made = bi.with_attributes()([image], texture, 1, np.random.default_rng(0))[0]
    coarse = [picture.reshape(16, 10, 22, 10, 3).mean(axis=(1, 3)) for picture in (image, made)]
    assert np.abs(coarse[0] - coarse[1]).mean() < 3  # colours and outlines stay
    made = bi.with_attributes()([image], grey, 1, np.random.default_rng(0))[0]
    assert (made[..., 0] == made[..., 1]).all()


def test_attributes_of_a_user_s_own():
    image = sky(0)
    sampler = bi.with_attributes()

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
    with pytest.raises(InputError, match="nothing to fill it"):
        sampler([image], EMPTY, 1, np.random.default_rng(0))
    assert not info_of(sampler).deterministic
    assert info_of(bi.with_attributes(bi.telea())).deterministic
