"""butfor.image.explain: from photographs to regions, however they are given and whatever is wrong with some."""

import re
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image as Files

import butfor
import butfor.image as bi
from butfor.image import files
from butfor.image.explain import explain, propose_regions
from butfor.image.files import load_items
from butfor.image.ranks import Shifted
from butfor.image.view import pictures as pictures_of

CORNER = (0, 0, 8, 8)
BOXES = {"corner": CORNER, "middle": (8, 8, 16, 16), "edge": (16, 16, 24, 24)}


def pictures(count=10, seed=0):
    """Grey noise with a bright corner, which is all that `corner` looks at."""
    noise = np.random.default_rng(seed).integers(90, 110, (count, 24, 24, 3), dtype=np.uint8)
    noise[:, :8, :8] += 100
    return list(noise)


def corner(batch):
    return np.array([image[:8, :8].mean() for image in batch])


def classes(batch):
    light = corner(batch)
    return np.stack([light, 250 - light, 0 * light], axis=1)


@pytest.fixture
def album(tmp_path):
    for number, image in enumerate(pictures()):
        Files.fromarray(image).save(tmp_path / f"p{number}.png")
    return tmp_path


def run(images, sampler=None, model=corner, **settings):
    settings = {"boxes": BOXES, "alternative": "greater", "test": "few-shot", **settings}
    return explain(model, images, sampler or bi.donor(), **settings)


def test_images_come_in_many_ways(album):
    names = [f"p{number}.png" for number in range(10)]
    wanted = run(album).table
    assert set(wanted.subset[wanted.chosen]) == {"corner"}
    ways = [
        str(album),
        bi.folder(album),
        [album / name for name in names],
        [str(album / name) for name in names],
        dict(zip(names, pictures(), strict=True)),
        {name: album / name for name in names},
    ]
    for way in ways:
        pd.testing.assert_frame_equal(run(way).table, wanted)


def test_arrays_are_numbered_and_not_written_to():
    given = pictures()
    before = [image.copy() for image in given]
    result = run(given, test="osft", alpha=0.2)
    assert result.table.input.unique().tolist() == [f"image {k}" for k in range(1, 11)]
    assert all((a == b).all() for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("test", ["osft", "few-shot", "irt", "sequential"])
def test_every_test_runs(test):
    draws = {"irt": 39, "sequential": 200}.get(test)
    result = run(pictures(), test=test, draws=draws, alpha=0.3)
    assert set(result.table.subset[result.chosen]) == {"corner"}


def test_an_image_keeps_its_draws_whatever_else_there_is_and_however_many_go_at_a_time(album):
    names = [f"p{number}.png" for number in range(10)]
    one = run(album).table
    two = run([album / name for name in names[::-1]], batch_rows=3).table
    both = one.merge(two, on=["input", "subset"])
    assert (both.w_x == both.w_y).all()


def test_files_are_opened_one_at_a_time(album, monkeypatch):
    alive, most = weakref.WeakValueDictionary(), []
    read = files.read_image

    def counted(path, **options):
        image = read(path, **options)
        alive[len(most)] = image
        most.append(len(alive))
        return image

    monkeypatch.setattr(files, "read_image", counted)
    found = propose_regions(load_items(album), bi.grid(2), "raise")
    assert len(most) == 10
    assert max(most) <= 3  # that which is looked at, and the last two that were read
    for image in found.items:
        assert image.shape == (24, 24, 3)
    assert len(most) >= 18
    assert max(most) <= 3


def test_the_model_gets_no_more_than_a_few_large_images():
    from butfor.image.explain import batch_images
    from butfor.run.proposed import Proposed

    some = load_items(pictures(2))
    assert batch_images(Proposed(some, ((), ()), (), 24 * 24 * 3)) == 32
    assert batch_images(Proposed(some, ((), ()), (), 90_000_000)) == 1


def test_counterfactuals_come_again_and_files_too(album, tmp_path):
    result = run(album)
    drawn = result.counterfactuals("p1.png", "corner", n=2)
    assert len(drawn) == 2
    assert (drawn[0][8:] == bi.read_image(album / "p1.png")[8:]).all()
    path = result.save(tmp_path / "r.butfor")
    again = butfor.load(path, bi.donor(), bi.folder(album))
    pd.testing.assert_frame_equal(again.table, result.table)
    assert (again.counterfactuals("p1.png", "corner", n=2)[1] == drawn[1]).all()
    assert again.modality == "image"
    assert again.record.inputs.files[1] == str(album / "p1.png")


def test_a_loaded_result_shows_its_pictures_while_the_files_are_there(album, tmp_path):
    result = run(album)
    path = result.save(tmp_path / "r.butfor")
    again = butfor.load(path)
    assert pictures_of(again) == pictures_of(result)  # without sampler and model: what the run kept is in the file
    photo = pictures_of(again).photographs[0]
    assert photo.marked.startswith("data:image/jpeg")
    tile = photo.regions[0].tiles[0]
    assert tile.value
    assert tile.change
    next(album.iterdir()).unlink()
    assert pictures_of(butfor.load(path)) is None
    assert pictures_of(result) is None
    given = pictures_of(butfor.load(path, inputs=pictures()))
    assert given.photographs[0].regions[0].tiles[0] == tile


def test_images_that_changed_since_the_run_are_not_shown(album, tmp_path):
    path = run(album).save(tmp_path / "r.butfor")
    file = album / "p1.png"
    image = bi.read_image(file)
    image[0, 0, 0] ^= 1
    Files.fromarray(image).save(file)
    loaded = butfor.load(path, sampler=bi.donor())
    said = f"the image {re.escape(str(file))} is not as it was when the run read it"
    with pytest.warns(UserWarning, match=f"^{said}; it is left out$"):
        assert pictures_of(loaded) is None
    subset = loaded.table.subset[0]
    with pytest.raises(butfor.InputError, match=said):  # the warning comes once
        loaded.counterfactuals(file.name, subset, n=1)
    assert loaded.counterfactuals("p0.png", subset, n=1)
    with pytest.raises(butfor.InputError, match=f"^the image '{file.name}' is not the one of the run; give those of"):
        butfor.load(path, inputs=album)


def test_images_given_to_a_saved_result_are_those_of_the_run(tmp_path):
    given = pictures()
    path = run(given).save(tmp_path / "r.butfor")
    butfor.load(path, inputs=given)
    with pytest.raises(butfor.InputError, match=r"is not the one of the run; give those of the run, in their order$"):
        butfor.load(path, inputs=list(given)[::-1])
    with pytest.raises(butfor.InputError, match=f"the result has {len(given)} inputs, got 1"):
        butfor.load(path, inputs=given[:1])


def test_a_file_has_a_checksum_for_each_image(album, tmp_path):
    result = run(album)
    inputs = replace(result.record.inputs, pixels=("00",))
    wrong = replace(result, record=replace(result.record, inputs=inputs)).save(tmp_path / "wrong.butfor")
    with pytest.raises(butfor.InputError, match="it has checksums of 1 images and 10 inputs"):
        butfor.load(wrong)


def test_masks_are_stored(tmp_path):
    mask = np.zeros((24, 24), bool)
    mask[:8, :8] = True
    result = run(pictures(), boxes={"corner": mask}, alpha=0.2)
    again = butfor.load(result.save(tmp_path / "r.butfor"), bi.donor(), pictures())
    assert (again.hypotheses.blocks[0].subset.index == mask).all()
    assert (again.counterfactuals("image 1", "corner")[0] == result.counterfactuals("image 1", "corner")[0]).all()


class Counted:
    """A sampler that counts its fills."""

    def __init__(self, deterministic=False):
        self.fills, self.deterministic = 0, deterministic

    def __call__(self, inputs, subset, draws, rng):
        self.fills += len(inputs) * draws
        return bi.donor()(inputs, subset, draws, np.random.default_rng(0) if self.deterministic else rng)

    def __repr__(self):
        return "counted()"


def test_fills_are_made_once_whatever_else_runs(tmp_path):
    sampler = Counted()
    first = run(pictures(), sampler, fills=tmp_path, draws=10)
    assert sampler.fills == 10 * 3 * 10  # images, boxes, draws
    run(pictures(), sampler, fills=tmp_path, alpha=0.2, draws=10)
    run(pictures(), sampler, classes, fills=tmp_path, alternative=None, draws=10)
    run(pictures(), sampler, fills=tmp_path, test="osft", alpha=0.3)
    assert sampler.fills == 300
    pd.testing.assert_frame_equal(run(pictures(), bi.donor(own=1), draws=10).table, first.table)


@pytest.mark.parametrize(
    ("count", "options", "test", "h"),
    [
        (10, {}, "few-shot", None),
        (9, {}, "sequential", 1),
        (10, {"family": "input"}, "sequential", 1),
        (10, {"boxes": bi.zoom(12), "draws": 20}, "sequential", 10),
    ],
)
def test_the_default_test_depends_on_the_inputs_alone(count, options, test, h):
    """Few-shot promises nothing for fewer than 10 images, nor within one; it was once chosen by the clock."""
    result = run(pictures(count), Counted(), test=None, **options)
    assert (result.record.test, result.record.h) == (test, h)
    assert np.isnan(result.table.effect).all()


def test_a_sampler_that_always_draws_the_same_runs_osft_and_promises_nothing():
    sampler = Counted(deterministic=True)
    result = run(pictures(), sampler, test=None, alpha=0.2)
    assert result.record.test == "osft"
    assert "Q is a single point" in str(result.guarantee)
    with pytest.raises(butfor.InputError, match=r"always draws the same; .*diversify.*osft"):
        run(pictures(), sampler, test="few-shot")
    for effects in ("chosen", "all"):
        with pytest.raises(butfor.InputError, match=r"effects need fresh draws.*diversify"):
            run(pictures(), sampler, test=None, effects=effects)


def test_effects_come_when_asked_for():
    assert run(pictures()).table.effect.isna().all()
    table = run(pictures(), effects="chosen").table
    assert (table.effect[table.chosen] > 50).all()
    assert table.effect[~table.chosen].isna().all()


def test_no_class_is_picked_by_default_and_classes_are_tested_upwards():
    result = run(pictures(), model=classes, alternative=None)
    assert (result.record.target, result.record.alternative) == ("predicted", "greater")
    fixed = run(pictures(), model=classes, alternative=None, target=0)
    assert fixed.record.alternative == "greater"
    assert run(pictures(), alternative=None).record.alternative == "two-sided"
    observed = run(pictures(), model=classes, alternative=None, target="observed-class")
    assert "observed" in str(observed.guarantee)


def test_attributes_are_one_more_hypothesis():
    regions = bi.together(
        bi.boxes(BOXES), bi.attributes(bright=lambda image, rng: image // rng.integers(2, 5, dtype=np.uint8))
    )
    result = run(pictures(), boxes=regions)
    assert set(result.table.subset[result.chosen]) == {"corner", "bright"}
    assert result.counterfactuals("image 1", "bright", n=1)[0].mean() < pictures()[0].mean()


# One list of boxes for each image, in their order


def test_boxes_of_each_image_in_their_order():
    each = [[CORNER, (8, 8, 16, 16)], [], [(16, 16, 24, 24)], *[[CORNER]] * 7]
    with pytest.warns(bi.RegionWarning, match=r"1 image was left out, having no region to test: 'image 2'"):
        found = run(pictures(), boxes=each, alpha=0.2)
    by_name = {f"image {k}": own for k, own in enumerate(each, start=1)}
    with pytest.warns(bi.RegionWarning, match="'image 2'"):
        named = run(pictures(), boxes=by_name, alpha=0.2)
    pd.testing.assert_frame_equal(found.table, named.table)
    where = [(found.input_names[block.start], block.subset.index) for block in found.hypotheses.blocks]
    assert where == [(name, box) for name, own in by_name.items() for box in own]


@pytest.mark.parametrize(
    "each",
    [
        [[list(CORNER)], [list(CORNER)]],
        [np.array([CORNER]), np.array([CORNER])],
        np.array([[CORNER], [CORNER]]),
        ([CORNER], (CORNER,)),
        [{"box 1": CORNER}, [{"name": "box 1", "box": CORNER}]],
    ],
)
def test_lists_of_boxes_come_in_many_ways(each):
    found = run(pictures(2), boxes=each, test="osft", alpha=0.5)
    assert [block.subset.index for block in found.hypotheses.blocks] == [CORNER, CORNER]
    assert found.record.inputs.boxes == "boxes(2 in 2 images)"


@pytest.mark.parametrize("everywhere", [[CORNER], [list(CORNER)], np.array([CORNER]), [{"name": "a", "box": CORNER}]])
def test_four_numbers_are_a_box_of_every_image(everywhere):
    found = run(pictures(2), boxes=everywhere, test="osft", alpha=0.5)
    assert [block.subset.index for block in found.hypotheses.blocks] == [CORNER, CORNER]
    assert found.record.inputs.boxes == "boxes(1 for every image)"


def test_masks_of_each_image_in_their_order():
    mask = np.zeros((24, 24), bool)
    mask[:8, :8] = True
    with pytest.warns(bi.RegionWarning, match="'image 1'"):
        found = run(pictures(2), boxes=[[], [mask, mask[::-1]]], test="osft", alpha=0.5)
    assert [block.start for block in found.hypotheses.blocks] == [0, 0]
    assert found.input_names == ("image 2",)
    assert (found.hypotheses.blocks[0].subset.index == mask).all()


@pytest.mark.parametrize(
    ("boxes", "sentence"),
    [
        ([[CORNER]] * 3, "boxes has lists of boxes for 3 images, but there are 2; give one list for each image, in "),
        ([[CORNER], CORNER], r"a box of every image is \[\(0, 0, 8, 8\)\]; expected four finite numbers"),
        ([[CORNER], [(1, 2, 3)]], r"a box of image 'image 2' is \(1, 2, 3\); expected four finite numbers"),
        ([(1, 2, 3), (4, 5, 6)], r"a box of every image is \(1, 2, 3\); expected four finite numbers"),
        ([[], []], "no image is left to test; 2 images were left out"),
    ],
)
def test_lists_of_boxes_that_do_not_fit(boxes, sentence):
    with pytest.raises(butfor.InputError, match=sentence):
        run(pictures(2), boxes=boxes)


def test_lists_of_boxes_go_through_every_call():
    each = [[CORNER]] * 10
    assert bi.ranks(corner, pictures(), bi.donor(), boxes=each).total == 10
    moved = bi.sensitivity(
        corner, pictures(), bi.donor(), boxes=each, alternative="greater", alpha=0.2, test="few-shot"
    )
    assert moved.results[1].hypotheses.blocks[0].subset.index == CORNER  # at the edge it cannot move
    one = butfor.explain(corner, pictures(), bi.donor(), subsets=each, test="few-shot")
    assert one.table.subset.tolist() == ["box 1"] * 10


@pytest.mark.parametrize("name", [None, "grid", "superpixels", "random"])
def test_regions_have_names(name):
    result = run(pictures(3), boxes=name, test="osft", alpha=0.5)
    assert result.table.subset.nunique() > 1


def broken_album(folder):
    for number, image in enumerate(pictures()):
        Files.fromarray(image).save(folder / f"p{number}.png")
    (folder / "p3.png").write_bytes((folder / "p3.png").read_bytes()[:200])
    (folder / "p5.png").write_bytes(b"no picture")
    Files.new("RGB", (1, 1)).save(folder / "p7.png")
    (folder / "notes.txt").write_text("seen on Monday")
    return folder


@pytest.mark.filterwarnings("ignore:.*reaches over the edge", "ignore:.*no image and was left out")
def test_what_cannot_be_used_is_named(tmp_path):
    album = broken_album(tmp_path)
    with pytest.raises(butfor.InputError, match=r"p3\.png is broken or cut short"):
        run(album)
    with pytest.warns(bi.RegionWarning, match=r"3 images were skipped: 'p3.png' .*'p5.png' .*'p7.png'"):
        result = run(album, on_error="skip", alpha=0.2)
    assert len(result.input_names) == 7
    assert any("'p5.png'" in str(note) for note in result.notes)
    (ignored,) = (note for note in result.notes if note.code == "files-ignored")
    assert ignored.values == {"names": ["notes.txt"]}
    assert str(ignored) == "1 file of the folder is no image and was left out: 'notes.txt'."


def test_every_kind_of_picture_is_taken(tmp_path):
    one = pictures(1)[0]
    picture = Files.fromarray(one)
    picture.save(tmp_path / "rgb.png")
    picture.convert("L").save(tmp_path / "grey.png")
    picture.convert("RGBA").save(tmp_path / "clear.png")
    picture.convert("CMYK").save(tmp_path / "print.jpg")
    Files.fromarray(one[..., 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    turned = Files.Exif()
    turned[0x0112] = 6
    picture.save(tmp_path / "turned.jpg", exif=turned)
    result = run(tmp_path, boxes="grid", alpha=0.5)
    assert len(result.input_names) == 6


@pytest.mark.parametrize(
    ("box", "sentence"),
    [((30, 30, 40, 40), "lies outside"), ((5, 5, 5, 9), "has no area"), ((9, 9, 2, 2), "order its corners")],
)
def test_boxes_that_do_not_fit_are_named_or_skipped(box, sentence):
    names = [f"image {k}" for k in range(1, 11)]
    given = {name: [CORNER] for name in names} | {"image 4": [box]}
    with pytest.raises(butfor.InputError, match=sentence):
        run(pictures(), boxes=given)
    with pytest.warns(bi.RegionWarning, match=sentence):
        assert len(run(pictures(), boxes=given, on_error="skip", alpha=0.2).input_names) == 9


def test_a_region_that_is_the_whole_image_does_not_stop_the_others():
    given = {f"image {k}": [CORNER] for k in range(1, 11)} | {"image 4": [(0, 0, 24, 24)]}
    with pytest.raises(butfor.InputError, match="is the whole image: nothing is left around it"):
        run(pictures(), boxes=given)
    with pytest.warns(bi.RegionWarning, match="is the whole image"):
        assert len(run(pictures(), boxes=given, on_error="skip", alpha=0.2).input_names) == 9


def test_nothing_left_is_an_error(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no")
    with pytest.raises(butfor.InputError, match="no image is left to test; 1 image was skipped"):
        run(tmp_path, on_error="skip")


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((8, 8, 3), np.uint8), "images is one image; give a list"),
        ([], "there are no images"),
        (3, "images must be a folder, a list"),
        ("nowhere", "does not exist"),
        ([np.zeros((8, 8, 3))], "image 'image 1' cannot be used: .*uint8"),
    ],
)
def test_what_is_no_list_of_images_is_refused(images, sentence):
    with pytest.raises(butfor.InputError, match=sentence):
        run(images)


def test_other_mistakes_are_told():
    with pytest.raises(butfor.InputError, match="neither a file nor one of grid, zoom, superpixels, random"):
        run(pictures(), boxes="circles")
    with pytest.raises(butfor.InputError, match="on_error must be one of 'raise', 'skip'"):
        run(pictures(), on_error="ignore")
    with pytest.raises(butfor.InputError, match=r"sampler must be a function .* got str"):
        explain(corner, pictures(), "telea")


def test_a_torch_module_is_asked_as_images_go_into_it():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3))

    result = run(pictures(2), model=Net(), alternative=None, test="osft", alpha=0.5)
    assert result.record.target == "predicted"


def test_sensitivity_runs_five_times_and_compares(tmp_path):
    sampler = Counted()
    images, settings = pictures(), {"boxes": BOXES | {"middle": (10, 10, 16, 16)}, "alternative": "greater"}
    settings |= {"fills": tmp_path, "test": "few-shot"}
    first = explain(corner, images, sampler, **settings)
    before = sampler.fills
    found = bi.sensitivity(corner, images, sampler, **settings)
    # the first run is there already; at the image's edges a box cannot move, so some moved boxes are there too
    assert before * 2 < sampler.fills < before * 5
    pd.testing.assert_frame_equal(found.results[0].table, first.table)
    assert [len(chosen) for chosen in found.selections] == [30] * 5
    assert found.iou == 1.0
    assert found.always.sum() == 10
    assert "moved by 1 pixel diagonally, 10, 10, 10, 10 are chosen instead of 10" in found.summary()
    assert found.select(0.3).results[0].alpha == 0.3
    with pytest.raises(butfor.InputError, match="pixels must be a whole number"):
        bi.sensitivity(corner, images, sampler, pixels=0)


def test_ranks_of_an_exact_sampler_fit_and_a_pile_at_the_bottom_is_told():
    from butfor.image.ranks import Ranks
    from butfor.simulate.images import textures

    bed = textures(3, share=0.0)
    exact = bi.ranks(bed.model, bed.inputs, bed.sampler, boxes=bed.boxes)
    assert exact.ok
    assert "little is to be found" in exact.verdict

    def striped(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        made = bed.sampler(inputs, subset, draws, rng)
        for image in made:
            image[y1:y2:2, x1:x2] += 6
        return made

    wrong = bi.ranks(bed.model, bed.inputs, striped, boxes=bed.boxes)
    assert not wrong.ok
    assert "not exchangeable with real patches" in wrong.verdict
    trial = Ranks(np.array([115, 27, 12, 14, 28, 26]), 0.2)  # MI-GAN diversified, the paper's 222 boxes
    assert not trial.ok
    ax = trial.plot()
    assert [bar.get_height() for bar in ax.patches] == [115, 27, 12, 14, 28, 26]
    with pytest.raises(butfor.InputError, match="ranks needs draws that differ"):
        bi.ranks(bed.model, bed.inputs, bi.telea(), boxes=bed.boxes)


def test_the_one_call_for_everything_takes_images():
    """`butfor.explain` and `butfor.check_sampler` hand images over to their own edge."""
    settings = {"seed": 3, "test": "few-shot"}
    one = butfor.explain(corner, pictures(), bi.donor(), subsets=BOXES, **settings)
    pd.testing.assert_frame_equal(one.table, explain(corner, pictures(), bi.donor(), boxes=BOXES, **settings).table)
    check = butfor.check_sampler(bi.donor(), pictures(), corner, subsets=[CORNER])
    assert check.summary().startswith("Places of 10 real patches, first to last: 10 ")
    with pytest.raises(butfor.InputError, match="sampler of images needs a model, by whose output they are ranked"):
        butfor.check_sampler(bi.donor(), pictures())


# Was wrong once: with every null true, superpixels and detectors chose in most runs and the guarantee said nothing.
@pytest.mark.parametrize(
    ("boxes", "dependent"),
    [
        ("grid", False),
        ("random", False),
        ([(0, 0, 8, 8)], False),
        (bi.together(bi.grid(2), bi.attributes("texture")), False),
        (Shifted(bi.grid(2), -1, -1), False),
        (bi.superpixels(9, compactness=1000), True),
        ({"a": [(0, 0, 8, 8)]}, True),
        ([[(0, 0, 8, 8)]], True),
        (bi.detected_boxes(lambda image: ([[0, 0, 9, 9]], [1.0])), True),
        (lambda name, image: [butfor.Subset("own", (0, 0, 8, 8))], True),
    ],
)
def test_regions_that_were_picked_by_what_they_hold_are_named_in_the_guarantee(boxes, dependent):
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    settings = {"boxes": boxes, "test": "few-shot"}
    result = bi.explain(lambda batch: [x.mean() for x in batch], {"a": noise}, bi.donor(), **settings)
    assert any(caveat.code == "data-dependent" for caveat in result.guarantee.caveats) == dependent
    assert result.record.data_dependent == dependent


@pytest.mark.parametrize(
    ("boxes", "said"),
    [
        (lambda name, image: [(0, 0, 8, 8)], r"boxes gave \(0, 0, 8, 8\) for 'a'; .*butfor.Subset"),
        (lambda name, image: None, "boxes raised TypeError on 'a'"),
        (lambda name, image: [butfor.Subset("all", (0, 0, 24, 24))], "region 'all' of image 'a' is the whole image"),
    ],
)
def test_functions_that_give_no_regions(boxes, said):
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    with pytest.raises((butfor.InputError, butfor.ModelError), match=said):
        bi.explain(lambda batch: [x.mean() for x in batch], {"a": noise}, bi.donor(), boxes=boxes)


def test_regions_of_one_name_are_told_apart():
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    twice = [butfor.Subset("a", (0, 0, 8, 8)), butfor.Subset("a", (8, 8, 16, 16))]
    result = bi.explain(
        lambda b: [x.mean() for x in b], {"a": noise}, bi.donor(), boxes=lambda *_: twice, test="few-shot"
    )
    assert result.table.subset.tolist() == ["a", "a 2"]


def test_as_many_names_as_outputs():
    class Net:
        classes = ("cat", "dog")

        def __call__(self, batch):
            return np.array([[x.mean(), 0, 1] for x in batch])

    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    with pytest.raises(butfor.InputError, match="the model has 3 outputs but 2 class names"):
        bi.explain(Net(), {"a": noise}, bi.donor())


def test_what_was_saved_is_drawn_again_by_name(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)
    images = {"a": noise[0], "b": noise[1]}
    boxes = bi.together(bi.grid(2), bi.attributes("texture"))
    result = bi.explain(lambda batch: [x.mean() for x in batch], images, bi.donor(), boxes=boxes, test="few-shot")
    result.save(tmp_path / "r.butfor")
    turned = butfor.load(tmp_path / "r.butfor", sampler=bi.donor(), inputs={"b": noise[1], "a": noise[0]})
    for subset in ("row 1 column 1", "texture"):
        for name in images:
            again, before = turned.counterfactuals(name, subset), result.counterfactuals(name, subset)
            assert all((x == y).all() for x, y in zip(again, before, strict=True))
    with pytest.raises(butfor.InputError, match=r"no longer where they were; use butfor.load\(..., inputs=...\)"):
        butfor.load(tmp_path / "r.butfor", sampler=bi.donor()).counterfactuals("a", "texture")
    with pytest.raises(butfor.InputError, match="has an input 'b', which the inputs given lack"):
        butfor.load(tmp_path / "r.butfor", sampler=bi.donor(), inputs={"a": noise[0], "c": noise[1]})


def test_labels_and_groups_go_with_the_images_that_are_left(tmp_path):
    for name in "abc":
        Files.fromarray(np.full((24, 24, 3), 60 + 20 * ord(name) % 97, np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"nothing")

    def model(batch):
        return np.array([[x[:8].mean(), -x[:8].mean()] for x in batch])

    with pytest.warns(bi.RegionWarning, match="'b.png'"):
        result = bi.explain(
            model,
            tmp_path,
            bi.donor(),
            boxes="grid",
            target="truth",
            y=[0, 1, 1],
            groups=["p", "q", "q"],
            on_error="skip",
            alpha=0.2,
        )
    assert (result.table.observed > 0).tolist() == [True] * 9 + [False] * 9


def test_what_is_no_image_is_told_as_it_came():
    image = np.zeros((24, 24, 3), np.uint8)
    with pytest.raises(butfor.InputError, match=r"image 'image 2' cannot be used: .* array of pixels, got None"):
        bi.explain(lambda batch: [x.mean() for x in batch], [image, None], bi.donor())
