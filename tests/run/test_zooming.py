"""Coarse to fine on images and texts: what is drawn, what counts, what is refused, what a file keeps."""

from dataclasses import replace

import numpy as np
import pytest

import butfor
from benchmarks.zoom import image_run, text_run
from butfor.evaluation.hypotheses import Layers
from butfor.image import donor, zoom
from butfor.image.region import WHOLE
from butfor.run import tests
from butfor.simulate.images import textures
from butfor.text import zoom as text_zoom


@pytest.fixture(scope="module")
def found():
    return text_run(4, inputs=10, draws=400, h=2)[0]


def test_a_part_is_drawn_only_where_its_whole_was_chosen(found):
    layers, drawn = found.hypotheses.layers, found.evidence.draws > 0
    has = layers.parent >= 0
    above = layers.parent[has]
    allowed = found.chosen[above] | (layers.resolution[above] == 0)  # the whole is looked through
    assert (drawn[has] == allowed).all()
    assert (~drawn).sum() > 100
    assert (found.evidence.values[~drawn] == 1).all()
    assert found.tested.all()  # what is not drawn stays in the family
    assert not found.evidence.open[~drawn].any()
    assert (found.table.status[~drawn] == "not unusual").all()


def test_what_is_chosen_has_chosen_ancestors_up_to_the_whole(found):
    layers = found.hypotheses.layers
    deep = found.chosen & (layers.resolution > 1)
    assert deep.any()
    assert found.chosen[layers.parent[deep]].all()
    assert "each resolution" in str(found.guarantee)


def test_a_smaller_alpha_does_not_keep_parts_of_what_it_drops(found):
    less = found.select(alpha=0.03)
    layers = found.hypotheses.layers
    deep = less.chosen & (layers.resolution > 1)
    assert less.chosen[layers.parent[deep]].all()
    assert less.chosen.sum() < found.chosen.sum()


def test_a_file_keeps_the_layers(found, tmp_path):
    path = tmp_path / "zoom.butfor"
    found.save(path)
    again = butfor.load(path)
    assert again.hypotheses.layers.stepwise
    assert (again.hypotheses.layers.parent == found.hypotheses.layers.parent).all()
    assert (again.select(alpha=0.05).chosen == found.select(alpha=0.05).chosen).all()


def test_cells_split_in_four_and_cover_their_parent():
    tree = zoom(8, whole=True).tree("picture", np.zeros((67, 90, 3), np.uint8))
    assert tree.subsets[0].name == WHOLE
    assert len(tree.subsets) == 1 + 4 + 16 + 64
    for place, subset in enumerate(tree.subsets):
        parts = [tree.subsets[k].index for k, above in enumerate(tree.parent) if above == place]
        if parts:
            x1, y1, x2, y2 = np.array(parts).T
            assert len(parts) == 4
            assert (x1.min(), y1.min(), x2.max(), y2.max()) == subset.index
            assert ((x2 - x1) * (y2 - y1)).sum() == (subset.index[2] - subset.index[0]) * (
                subset.index[3] - subset.index[1]
            )
    with pytest.raises(butfor.InputError, match="cannot be split"):
        zoom(8).tree("small", np.zeros((9, 9, 3), np.uint8))


def test_the_whole_picture_needs_a_sampler_that_can_redraw_it():
    bed = textures(0, inputs=2)
    names = butfor.image.explain(bed.model, bed.inputs, donor(), boxes="zoom", draws=8).subset_names
    assert WHOLE not in names
    other = donor(list(textures(1, inputs=3).inputs.values()))
    assert WHOLE in butfor.image.explain(bed.model, bed.inputs, other, boxes="zoom", draws=8).subset_names
    with pytest.raises(butfor.InputError, match="whole image"):
        butfor.image.explain(bed.model, bed.inputs, donor(), boxes=zoom(whole=True))


def test_spans_lie_inside_each_other_and_stand_once():
    text = "Dull. But it was short, and it was sweet!\n\nThe end came much too late for me to see it.The rest is old."
    tree = text_zoom(whole=True).tree("review", text)
    names = [subset.name for subset in tree.subsets]
    assert len(set(names)) == len(names)
    assert len({subset.index for subset in tree.subsets}) == len(names)
    for subset, above, level in zip(tree.subsets, tree.parent, tree.resolution, strict=True):
        if above >= 0:
            a, b = tree.subsets[above].index
            assert a <= subset.index[0] < subset.index[1] <= b
            assert tree.resolution[above] < level
    assert "Dull." in names  # a sentence of one word is no phrase and no word again
    assert "Dull" not in names
    assert "The rest is old." in names
    words = {
        subset.name.split(" #")[0] for subset, level in zip(tree.subsets, tree.resolution, strict=True) if level == 4
    }
    assert {"sweet", "end", "late", "rest"} <= words


@pytest.mark.parametrize("text", ["Ein Satz. Noch einer, der länger ist!", "Первое предложение. Второе, длиннее!"])
def test_other_languages_have_the_same_resolutions(text):
    tree = text_zoom(whole=True).tree("text", text)
    assert sorted(set(tree.resolution)) == [0, 2, 3, 4]


def test_a_test_without_p_values_is_refused():
    bed = textures(0, inputs=2)
    for options in ({"test": "few-shot"}, {"test": "osft"}, {"test": butfor.irt(early_stop=True)}):
        with pytest.raises(butfor.InputError, match="zoom needs p-values"):
            butfor.image.explain(bed.model, bed.inputs, bed.sampler, boxes="zoom", **options)
    with pytest.raises(
        butfor.InputError, match=r"draws that differ.* or use test='osft', without zoom, as in the paper"
    ):
        butfor.image.explain(bed.model, bed.inputs, butfor.image.telea(), boxes="zoom")
    with pytest.raises(butfor.InputError, match="zoom takes one of the rules"):
        butfor.image.explain(bed.model, bed.inputs, bed.sampler, boxes="zoom", rule="adaptive")


def test_a_fixed_number_of_draws_goes_from_coarse_to_fine_too():
    result, _ = image_run(1, inputs=3, draws=50)
    bed = textures(1, inputs=3, side=8, extent=3)
    fixed = butfor.image.explain(
        bed.model, bed.inputs, bed.sampler, boxes=zoom(8, whole=True), test=butfor.irt(199), target=0, decide=False
    )
    assert set(np.unique(fixed.evidence.draws)) == {0, 199}
    assert fixed.hypotheses.layers.parent.tolist() == result.hypotheses.layers.parent.tolist()


def test_what_is_reached():
    layers = Layers(np.array([0, 1, 1, 2, 2]), np.array([-1, 0, 0, 1, 2]), True)
    assert layers.reached(np.array([False, True, False, False, False])).tolist() == [True, True, True, True, False]


def test_drawing_ends_where_nothing_more_could_be_chosen(monkeypatch):
    """With 60 draws no p-value is below 2 / 62: spans of the finer resolutions are too few to be chosen together."""
    early, _ = text_run(3, inputs=4, draws=60, h=2)
    stops = tests.Stopping
    monkeypatch.setattr(tests, "Stopping", lambda **known: replace(stops(**known), at_best=None))
    late, _ = text_run(3, inputs=4, draws=60, h=2)
    assert early.chosen.any()
    assert (early.chosen == late.chosen).all()
    assert ((early.evidence.draws > 0) == (late.evidence.draws > 0)).all()
    assert (early.evidence.values[early.chosen] == late.evidence.values[late.chosen]).all()
    assert (early.evidence.values >= late.evidence.values).all()
    assert early.evidence.draws.sum() < 0.8 * late.evidence.draws.sum()  # rows are also of what moves, in both
    assert any("drawing ended early: with 60 draws" in str(note) for note in early.run_notes)
