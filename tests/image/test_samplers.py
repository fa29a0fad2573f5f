"""One table over all samplers of images: what every one of them must do."""

import pickle
from dataclasses import dataclass, fields

import numpy as np
import pytest

import butfor
import butfor.image as bi
from butfor import InputError, ModelError, SamplerInfo, Subset
from butfor.evaluation.samplers import info_of
from butfor.image.attributes import WithAttributes
from butfor.image.region import mask_of


def make_picture(height=40, width=48, seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    smooth = np.stack([x * 3, y * 4, 128 + x - y], axis=2) + rng.normal(0, 6, (height, width, 3))
    return np.clip(smooth, 0, 255).astype(np.uint8)


INPUTS = [make_picture(), make_picture(36, 60, seed=1)]
ELLIPSE = ((np.mgrid[:40, :48][0] - 18) / 9) ** 2 + ((np.mgrid[:40, :48][1] - 25) / 14) ** 2 < 1
SUBSETS = {
    "middle": Subset("middle", (12, 10, 30, 24)),
    "border": Subset("border", (0, 0, 9, 36)),
    "corner": Subset("corner", (40, 30, 48, 36)),
    "wide": Subset("wide", (1, 1, 47, 35)),
    "pixel": Subset("pixel", (20, 20, 21, 21)),
    "mask": Subset("mask", ELLIPSE),
}
SAMPLERS = {
    "telea": lambda files: bi.telea(),
    "navier_stokes": lambda files: bi.navier_stokes(2),
    "donor": lambda files: bi.donor(),
    "donor with a reference": lambda files: bi.donor([make_picture(50, 50, 7), make_picture(20, 90, 8)]),
    "diversify": lambda files: bi.diversify(bi.telea()),
    "diversify without anything": lambda files: bi.diversify(bi.donor(), flip=False, scale=(1, 1), grow=0, noise=0),
    "with_attributes": lambda files: WithAttributes(bi.donor()),
    "cached": lambda files: bi.cached(bi.donor(), files / "fills"),
    "cached telea": lambda files: bi.cached(bi.telea(), files / "fills"),
    "onnx migan": lambda files: bi.onnx_inpainter(files / "migan.onnx", threads=1),
    "onnx lama": lambda files: bi.onnx_inpainter(files / "lama.onnx", threads=1, blind=True),
    "onnx lama of any size": lambda files: bi.onnx_inpainter(files / "lama_free.onnx", threads=1),
    "diversify onnx": lambda files: bi.diversify(bi.onnx_inpainter(files / "lama.onnx", threads=1)),
}


@pytest.fixture(params=SAMPLERS)
def name(request):
    return request.param


@pytest.fixture
def sampler(name, request, tmp_path):
    return SAMPLERS[name](request.getfixturevalue("tiny_networks") if "onnx" in name else tmp_path)


@pytest.fixture(params=SUBSETS)
def subset(request):
    return SUBSETS[request.param]


def rng(seed=5):
    return np.random.default_rng(seed)


def mask_in(subset, image):
    if isinstance(subset.index, np.ndarray):
        return subset.index
    mask = np.zeros(image.shape[:2], bool)
    x1, y1, x2, y2 = subset.index
    mask[y1:y2, x1:x2] = True
    return mask


def inputs_for(subset):
    return INPUTS[:1] if isinstance(subset.index, np.ndarray) else INPUTS  # a mask belongs to one image


@pytest.mark.parametrize("draws", [1, 3])
def test_count_order_and_complement(sampler, subset, draws):
    inputs = inputs_for(subset)
    made = sampler(inputs, subset, draws, rng())
    assert isinstance(made, list)
    assert len(made) == len(inputs) * draws
    for k, image in enumerate(made):
        given = inputs[k // draws]
        assert image.dtype == np.uint8
        assert image.shape == given.shape
        outside = ~mask_in(subset, given)
        np.testing.assert_array_equal(image[outside], given[outside])  # to the bit, and input-major


def test_none_of_something_is_nothing(sampler, subset):
    assert sampler([], subset, 3, rng()) == []
    assert sampler(inputs_for(subset), subset, 0, rng()) == []


def test_inputs_are_neither_changed_nor_returned(sampler, subset):
    inputs = [image.copy() for image in inputs_for(subset)]
    for image in inputs:
        image.setflags(write=False)  # images of a folder are read-only
    for image in sampler(inputs, subset, 2, rng()):
        image[:] = 0
    for image, given in zip(inputs, inputs_for(subset), strict=True):
        np.testing.assert_array_equal(image, given)


def test_draws_are_not_one_array(sampler):
    one, two = sampler(INPUTS[:1], SUBSETS["middle"], 2, rng())
    one[:] = 0
    assert two.any()


def test_the_same_rng_gives_the_same_draws_and_another_one_others(sampler):
    subset = SUBSETS["middle"]
    one, again, other = (sampler(INPUTS, subset, 4, rng(seed)) for seed in (5, 5, 6))
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a, b)
    different = any((a != b).any() for a, b in zip(one, other, strict=True))
    among = any((one[0] != image).any() for image in one[1:4])
    assert different == among == (not info_of(sampler).deterministic)


def test_global_state_is_not_used(sampler):
    np.random.seed(1)  # noqa: NPY002
    one = sampler(INPUTS[:1], SUBSETS["middle"], 2, rng())
    np.random.seed(2)  # noqa: NPY002
    for a, b in zip(one, sampler(INPUTS[:1], SUBSETS["middle"], 2, rng()), strict=True):
        np.testing.assert_array_equal(a, b)


def test_inputs_and_draws_do_not_depend_on_what_follows(sampler):
    subset = SUBSETS["middle"]
    few, more, both = (
        sampler(INPUTS[:1], subset, 2, rng()),
        sampler(INPUTS[:1], subset, 4, rng()),
        sampler(INPUTS, subset, 2, rng()),
    )
    for k in range(2):
        np.testing.assert_array_equal(few[k], more[k])
        np.testing.assert_array_equal(few[k], both[k])


def test_what_was_in_the_hole_does_not_matter(sampler, subset):
    """Q(x_S | x_-S) may not look at x_S."""
    inputs = inputs_for(subset)
    emptied = [image.copy() for image in inputs]
    for image in emptied:
        image[mask_in(subset, image)] = rng().integers(0, 255, 3)
    for a, b in zip(sampler(inputs, subset, 2, rng()), sampler(emptied, subset, 2, rng()), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (5, 7)])
def test_tiny_images_and_holes_without_surroundings(sampler, shape):
    """A fill, or one sentence that says what is the matter; never the image itself passed off as a fill."""
    image = rng().integers(0, 255, (*shape, 3), dtype=np.uint8)
    height, width = shape
    for box in [(0, 0, width, height), (0, 0, 1, 1), (width - 1, height - 1, width, height)]:
        try:
            made = sampler([image], Subset("hole", box), 1, rng())
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert box == (0, 0, width, height)
        else:
            assert made[0].shape == image.shape


def test_a_hole_outside_the_image_or_without_pixels(sampler):
    with pytest.raises(InputError, match="48 x 40"):
        sampler(INPUTS[:1], Subset("far", (40, 30, 60, 50)), 1, rng())
    with pytest.raises(InputError, match=r"no pixels|empty|mask"):
        sampler(INPUTS[:1], Subset("none", np.zeros((40, 48), bool)), 1, rng())
    with pytest.raises(InputError, match="60 x 36"):
        sampler(INPUTS[1:], SUBSETS["mask"], 1, rng())


@pytest.mark.parametrize("wrong", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), "cat.jpg"])
def test_what_is_no_image_is_refused(sampler, wrong):
    with pytest.raises(InputError, match=r"uint8 array \(height, width, 3\)"):
        sampler([wrong], Subset("a", (0, 0, 2, 2)), 1, rng())


def test_pickle(sampler):
    again = pickle.loads(pickle.dumps(sampler))
    for a, b in zip(
        sampler(INPUTS, SUBSETS["middle"], 2, rng()), again(INPUTS, SUBSETS["middle"], 2, rng()), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_repr_is_short_and_says_what_it_is(name, sampler):
    said = repr(sampler)
    assert len(said) < 120
    assert "\n" not in said
    assert "0x" not in said
    assert said.startswith(name.split()[0].replace("onnx", "onnx_inpainter"))


# What belongs to single samplers


def test_a_user_may_give_an_inpainter_that_fails():
    def two(inputs, subset, draws, rng):
        return [*inputs, *inputs]

    with pytest.raises(ModelError, match="returned 2 images"):
        bi.diversify(two)(INPUTS[:1], SUBSETS["middle"], 1, rng())


@pytest.mark.parametrize(
    "make",
    [
        lambda: bi.telea(0),
        lambda: bi.diversify(3),
        lambda: bi.diversify(bi.telea(), scale=(2, 1)),
        lambda: bi.diversify(bi.telea(), grow=99),
        lambda: bi.donor([]),
        lambda: bi.donor(["cat.jpg"]),
        lambda: bi.donor(spread=0),
        lambda: bi.onnx_inpainter("nowhere.onnx"),
        lambda: bi.onnx_inpainter(__file__),
        lambda: bi.diffusers_inpainter(3),
        lambda: bi.diffusers_inpainter("a", generator=1),
        lambda: bi.cached(3, "x"),
        lambda: bi.cached(lambda *asked: [], "x"),
    ],
)
def test_bad_settings_get_one_sentence(make):
    with pytest.raises(InputError) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_network_with_other_inputs_is_named(tiny_networks):
    with pytest.raises(InputError, match=r"has the inputs x tensor\(float\)"):
        bi.onnx_inpainter(tiny_networks / "classifier.onnx")


def test_lama_fills_with_what_stands_around(tiny_networks):
    image = np.full((90, 70, 3), 50, np.uint8)
    image[20:60, 20:50] = 250
    for name in ("lama.onnx", "lama_free.onnx"):
        made = bi.onnx_inpainter(tiny_networks / name, threads=1)([image], Subset("a", (20, 20, 50, 60)), 1, rng())[0]
        assert np.abs(made.astype(int) - 50).max() <= 1


def test_donor_takes_real_pieces_and_many_of_them():
    """On two textures, a hole in one is filled with that one."""
    image = np.zeros((80, 120, 3), np.uint8)
    image[:, :60] = rng().integers(0, 80, (80, 60, 1))
    image[:, 60:] = rng().integers(170, 250, (80, 60, 1))
    made = bi.donor()([image], Subset("a", (20, 30, 40, 50)), 12, rng())
    means = [fill[30:50, 20:40].mean() for fill in made]
    assert max(means) < 90
    assert len({fill.tobytes() for fill in made}) > 6


def test_diversify_leaves_no_seam():
    """A fill that is off by a constant meets its surroundings all the same."""

    def darker(inputs, subset, draws, rng):
        image = inputs[0].copy()
        image[subset.index] = 100
        return [image]

    image = np.full((60, 60, 3), 120, np.uint8)
    made = bi.diversify(darker, noise=0, scale=(1, 1))([image], Subset("a", (10, 10, 50, 50)), 8, rng())
    grown = [fill for fill in made if fill[30, 10, 0] > 115]
    assert len(grown) >= 4  # where the hole was grown, what the fill is off by is known
    assert all(abs(int(fill[30, 30, 0]) - 100) <= 2 for fill in made)


def test_migan_on_a_photograph(assets):
    sampler = bi.onnx_inpainter(assets / "migan_pipeline_v2.onnx", threads=1)
    assert sampler.convention == "migan"
    image = bi.read_image(assets / "paper" / "img33.jpg")
    subset = Subset("a", (60, 60, 140, 130))
    emptied = image.copy()
    emptied[60:130, 60:140] = 0
    made = sampler([image], subset, 1, rng())[0]
    outside = ~mask_in(subset, image)
    np.testing.assert_array_equal(made[outside], image[outside])
    assert (made[~outside] != image[~outside]).mean() > 0.5
    assert (sampler([emptied], subset, 1, rng())[0] != made).any()  # it sees through the hole: why diversify empties it
    blind = bi.onnx_inpainter(assets / "migan_pipeline_v2.onnx", threads=1, blind=True)
    np.testing.assert_array_equal(blind([image], subset, 1, rng())[0], blind([emptied], subset, 1, rng())[0])


# Was wrong once: places were compared on the whole image made small, in which pixels of the hole run into the others.
def test_donor_does_not_look_into_the_hole():
    image = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    image[::7] //= 3
    for box in ((100, 80, 180, 200), (31, 17, 95, 61)):
        other, subset = image.copy(), Subset("a", box)
        other[box[1] : box[3], box[0] : box[2]] = 255 - other[box[1] : box[3], box[0] : box[2]] // 4
        costs = []
        for x in (image, other):
            fits = {}
            bi.donor().fill(x, mask_of(subset, 300, 400), np.random.default_rng(1), fits)
            costs += [places.cost for places in fits.values()]
        assert (costs[0] == costs[1]).all()


def test_each_region_is_judged_by_its_own_image():
    rng = np.random.default_rng(0)
    images = [rng.normal(level, 4, (120, 160, 3)).clip(0, 255).astype(np.uint8) for level in (90, 160)]
    subset = Subset("sky", (40, 30, 100, 80))

    def sometimes_smeared(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        out = [image.copy() for image in inputs for _ in range(draws)]
        for image in out:
            like = rng.normal(image[:20].mean(), 4, (y2 - y1, x2 - x1, 3)).clip(0, 255).astype(np.uint8)
            image[y1:y2, x1:x2] = image[y1 - 1, x1 - 1] if rng.random() < 0.5 else like
        return out

    only = butfor.plausible(sometimes_smeared, bi.judge, 0.05)
    for image in images:
        assert (bi.judge(image, subset)(only([image], subset, 6, np.random.default_rng(2))) >= 0.05).all()
        plain = sometimes_smeared([image], subset, 6, np.random.default_rng(2))
        assert (bi.judge(image, subset)(plain) < 0.05).any()
    assert only.notes(images, [[subset], [subset]], 0) == []
    smeared = images[0].copy()
    smeared[30:80, 40:100] = 90
    for wrapped in (only, bi.cached(only, "fills", name="only"), bi.diversify(only), WithAttributes(only)):
        (note,) = wrapped.notes([smeared], [[subset]], 0)
        assert (note.code, note.values["below"], note.values["regions"]) == ("untested-regions", 1, 1)
    (colour,) = bi.attributes("colour")("a", smeared)  # is not filtered, so it does not count
    (note,) = WithAttributes(only).notes([smeared], [[subset, colour]], 0)
    assert (note.code, note.values["below"], note.values["regions"]) == ("untested-regions", 1, 1)


# Facts


@dataclass(frozen=True)
class Odd:
    """A sampler of which everything is true that can be."""

    info = SamplerInfo(
        identity="odd",
        deterministic=True,
        ignores_dependence=True,
        takes_missing=True,
        changes_subset_only=False,
        whole=True,
        floor=len,
        reference_rows=7,
        kinds={"a": 1},
        tokenizer="words",
        listed=3,
        calibrated=True,
        fills_whole=True,
        keeps_input=True,
        dear=True,
        assumes="fills are as good as photographs",
    )

    def __call__(self, inputs, subset, draws, rng):
        return [image for image in inputs for _ in range(draws)]


WRAPPERS = {  # and what each of them must know better
    "plausible": (lambda inner: butfor.plausible(inner, bi.judge, 0.05), {"listed": 0}),
    "diversify": (bi.diversify, {"deterministic": False, "changes_subset_only": True}),
    "cached": (lambda inner: bi.cached(inner, "fills"), {}),
    "with_attributes": (WithAttributes, {}),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_keeps_every_fact_of_what_it_wraps(name):
    wrap, better = WRAPPERS[name]
    inner, outer = info_of(Odd()), info_of(wrap(Odd()))
    for field in fields(SamplerInfo):
        if field.name != "identity":
            assert getattr(outer, field.name) == better.get(field.name, getattr(inner, field.name)), field.name
    assert "odd" in outer.identity
    usual = SamplerInfo()
    assert all(
        getattr(inner, f.name) != getattr(usual, f.name) for f in fields(usual) if f.name != "changes_subset_only"
    )


@pytest.mark.parametrize("outer", WRAPPERS)
@pytest.mark.parametrize("inner", WRAPPERS)
def test_wrappers_of_wrappers_keep_them_too(outer, inner):
    found = info_of(WRAPPERS[outer][0](WRAPPERS[inner][0](Odd())))
    assert found.ignores_dependence
    assert found.reference_rows == 7
    assert found.deterministic == ("diversify" not in (outer, inner))


@pytest.mark.parametrize("sampler", [bi.donor(), bi.telea(), bi.navier_stokes(), bi.diversify(bi.telea())])
def test_what_pastes_is_trusted_and_what_is_a_user_s_own_is_not(sampler):
    def own(inputs, subset, draws, rng):
        return list(inputs) * draws

    for wrap, _ in WRAPPERS.values():
        assert info_of(wrap(sampler)).changes_subset_only
    assert info_of(WithAttributes(bi.donor())).changes_subset_only
    assert not info_of(WithAttributes(own)).changes_subset_only
    assert not info_of(bi.cached(own, "fills", name="own")).changes_subset_only


def test_a_donor_is_told_by_its_reference_however_that_is_held(tmp_path):
    from PIL import Image

    Image.fromarray(INPUTS[0]).save(tmp_path / "a.png")
    known = {
        info_of(bi.donor(reference)).identity
        for reference in (None, INPUTS, INPUTS[:1], np.stack(INPUTS[:1]), bi.folder(tmp_path), bi.folder(tmp_path))
    }
    assert (
        len(known) == 4
    )  # a list and an array of the same images are the same, and so is a folder that did not change
    Image.fromarray(INPUTS[1]).save(tmp_path / "a.png")
    assert info_of(bi.donor(bi.folder(tmp_path))).identity not in known


def test_a_donor_may_take_all_of_its_pieces_from_the_reference():
    image, dark = np.full((40, 40, 3), 200, np.uint8), [np.full((40, 40, 3), 40, np.uint8)]
    hole, rng = Subset("middle", (12, 12, 28, 28)), np.random.default_rng
    middles = {
        own: np.array([one[20, 20, 0] for one in bi.donor(dark, own=own)([image], hole, 60, rng(0))])
        for own in (None, 0, 1)
    }
    assert (middles[0] == 40).all()
    assert (middles[1] == 200).all()
    assert 15 < (middles[None] == 40).sum() < 45  # half of them
    assert bi.donor(dark).info.identity != bi.donor(dark, own=0).info.identity
    assert repr(bi.donor(dark, own=0.25)).endswith("own=0.25)")
    for wrong in ({"own": 0.5}, {"reference": dark, "own": 2}, {"reference": dark, "own": "half"}):
        with pytest.raises(butfor.InputError, match="own must be a share from 0 to 1"):
            bi.donor(**wrong)
