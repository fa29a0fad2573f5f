"""Images with captions: both tested in one run, with known truth; each part by its own sampler."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import Subset
from butfor.image import donor, grid
from butfor.multimodal.explain import explain
from butfor.results.words import Note
from butfor.simulate.images import textures
from butfor.simulate.texts import WORDS, sentences
from butfor.text import ngram, words

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

RUNS = 50
ALPHA = 0.2
FLOOR = {"osft": 0.5, "few-shot": 0.7, "sequential": 0.6}
TESTS = {"sequential": butfor.sequential(h=4, draws=500)}
INPUTS = {"osft": 12, "few-shot": 12, "sequential": 3}


class Bed:
    """Textures with sentences that have nothing to do with them; a model that looks at both."""

    def __init__(self, seed, inputs, listed=0):
        self.images = textures(seed, inputs=inputs, side=3, share=0.3)
        self.texts = sentences(seed=seed + 10_000, inputs=inputs, listed=listed)
        pairs = zip(self.images.inputs.values(), self.texts.inputs.items(), strict=True)
        self.inputs = {name: {"image": image, "caption": text} for image, (name, text) in pairs}
        self.samplers = {"image": self.images.sampler, "caption": self.texts.sampler}
        boxes = [Subset(name, box) for name, box in self.images.boxes.items()]
        self.subsets = {"image": boxes, "caption": lambda name, _: self.texts.subsets[name]}
        self.truth = np.concatenate([self.images.truth, self.texts.truth], axis=1).ravel()

    def model(self, batch):
        seen = self.images.model([pair["image"] for pair in batch])[:, 0]
        return self.texts.model([pair["caption"] for pair in batch]) + 2 * seen

    def explained(self, **settings):
        settings = {"subsets": self.subsets, "samplers": self.samplers, "alternative": "two-sided", **settings}
        return explain(self.model, self.inputs, **settings)


@pytest.mark.parametrize("test", ["osft", "few-shot", "sequential"])
def test_the_rate_holds_over_both_parts(test):
    found = []
    for seed in range(RUNS):
        bed = Bed(seed, INPUTS[test])
        chosen = bed.explained(test=TESTS.get(test, test), alpha=ALPHA, seed=seed).chosen
        found.append([(chosen & ~bed.truth).sum() / max(1, chosen.sum()), chosen[bed.truth].mean()])
    false, power = np.array(found).T
    assert false.mean() <= ALPHA + 2 * false.std(ddof=1) / np.sqrt(RUNS)
    assert power.mean() >= FLOOR[test]


def test_both_parts_are_found_and_named():
    bed = Bed(0, 12)
    result = bed.explained(alpha=ALPHA)
    parts = result.table.subset.str.split(": ").str[0]
    assert set(parts[result.chosen]) == {"image", "caption"}
    assert (parts == "image").sum() == 12 * 9
    assert Note("parts-apart", "warning") in result.notes
    assert result.input_names[0] == "sentence 1"


def test_other_parts_stay_as_they_are_and_seeds_decide():
    bed = Bed(0, 3)
    result = bed.explained(alpha=ALPHA)
    name, pair = next(iter(bed.inputs.items()))
    (first, *_) = result.counterfactuals(name, "image: square 1", n=2)
    assert first["caption"] == pair["caption"]
    assert (first["image"][:8, :8] != pair["image"][:8, :8]).any()
    assert (first["image"][8:] == pair["image"][8:]).all()
    (word,) = result.counterfactuals(name, f"caption: {bed.texts.subsets[name][0].name}", n=1)
    assert np.shares_memory(word["image"], pair["image"])
    pd.testing.assert_frame_equal(bed.explained(alpha=ALPHA, batch_rows=5).table, result.table)


def test_a_part_that_can_be_listed_is_exact_and_the_other_drawn():
    bed = Bed(1, 4, listed=len(WORDS))
    result = bed.explained(test="irt", draws=99)
    caption = result.table.subset.str.startswith("caption: ").to_numpy()
    assert (result.table.draws[caption] == len(WORDS)).all()
    assert (result.table.draws[~caption] == 99).all()
    assert result.rows < 4 * (12 * len(WORDS) + 9 * 400)  # squares that may move the output are drawn on, words never
    drawing = {**bed.samplers, "caption": replace(bed.texts.sampler, listed=0)}
    few = bed.explained(test="irt", draws=99, samplers=drawing)
    assert few.rows <= result.rows  # words that are drawn again are not asked again


def test_a_sampler_may_be_shown_all_parts():
    class Echo:
        """Writes the brightness of the image into the caption, which a sampler of captions could not."""

        whole = True

        def __call__(self, inputs, subset, draws, rng):
            return [{**x, "caption": f"{x['image'].mean():.0f}"} for x in inputs for _ in range(draws)]

    inputs = [{"image": np.full((4, 4), level), "caption": "x"} for level in (1.0, 7.0)]
    settings = {"samplers": {"caption": Echo()}, "subsets": {"caption": [Subset("all", (0, 1))]}}
    result = explain(lambda batch: [len(x["caption"]) for x in batch], inputs, **settings)
    assert [x["caption"] for x in result.counterfactuals("input 2", "caption: all", n=2)] == ["7", "7"]
    assert Note("parts-apart", "warning") not in result.notes


def test_a_result_comes_back_from_a_file(tmp_path):
    bed = Bed(0, 3)
    result = bed.explained(alpha=ALPHA)
    path = result.save(tmp_path / "r.butfor")
    for inputs in (list(bed.inputs.values()), bed.inputs):
        again = butfor.load(path, result.hypotheses.sampler, inputs)
        pd.testing.assert_frame_equal(again.table, result.table)
        one, other = (r.counterfactuals("sentence 1", "image: square 2", n=1)[0] for r in (result, again))
        assert (one["image"] == other["image"]).all()
    assert result.report(tmp_path / "r.html").exists()


GOOD = {"samplers": {"a": lambda *_: []}, "subsets": {"a": [Subset("x", (0, 1))]}}


@pytest.mark.parametrize(
    ("inputs", "settings", "said"),
    [
        ([], GOOD, "inputs is empty"),
        (["text"], GOOD, "expected a mapping"),
        ([{"b": "text"}], GOOD, r"has the parts \['b'\], but subsets asks for 'a'"),
        ([{"a": "text"}], {**GOOD, "samplers": {}}, "give a sampler for each part"),
        ([{"a": "text"}], {**GOOD, "subsets": {}}, "give a sampler for each part"),
        ([{"a": "text"}], {**GOOD, "samplers": {"a": 1}}, "got int"),
        ([{"a": "text"}], {**GOOD, "subsets": [1]}, "must be mappings"),
        ([{"a": "text"}], {**GOOD, "subsets": {"a": [(0, 1)]}}, "must be butfor.Subset, got tuple"),
        ([{"a": "text"}], {**GOOD, "subsets": {"a": [Subset("x", (0, 1))] * 2}}, "same name"),
        ([{"a": "text"}], {**GOOD, "subsets": {"a": []}}, "anything to test"),
        ([{"a": "text"}], GOOD, "returned 0 parts, expected"),
    ],
)
def test_one_clear_sentence(inputs, settings, said):
    with pytest.raises(butfor.InputError, match=said):
        explain(lambda batch: [0.0 for _ in batch], inputs, **settings)


@pytest.mark.parametrize("test", ["few-shot", butfor.irt(draws=99)], ids=["few-shot", "irt"])
def test_a_model_that_writes_into_its_parts_is_found_out(test):
    """An input shares its parts with its draws: a model that darkened them made 24 false discoveries of 48."""
    noise = np.random.default_rng(0).integers(90, 110, (8, 12, 12, 3), dtype=np.uint8)
    inputs = [{"image": image.copy(), "caption": "a dog"} for image in noise]

    def model(batch):
        outputs = [float(pair["image"][:6, :6].mean()) for pair in batch]
        for pair in batch:
            pair["image"] //= 2
        return outputs

    parts = {"samplers": {"image": butfor.image.donor()}, "subsets": {"image": butfor.image.grid(2)}}
    with pytest.raises(butfor.ModelError, match="read-only"):
        explain(model, inputs, **parts, test=test)
    assert all((pair["image"] == image).all() for pair, image in zip(inputs, noise, strict=True))

    def replaces(batch):
        outputs = [float(pair["image"][:6, :6].mean()) for pair in batch]
        for pair in batch:
            pair["caption"] = "x"  # in a mapping of its own
        return outputs

    plain = explain(lambda batch: [float(pair["image"][:6, :6].mean()) for pair in batch], inputs, **parts, test=test)
    assert explain(replaces, inputs, **parts, test=test).table.equals(plain.table)


@pytest.mark.parametrize("fills_whole", [True, False])
def test_a_word_or_a_region_is_enough(fills_whole):
    """Where the picture cannot be redrawn as a whole, some of it is always kept."""
    noise = np.random.default_rng(0).integers(90, 110, (6, 12, 12, 3), dtype=np.uint8)
    noise[0, :6, :6] += 100

    def model(inputs):
        seen = np.array(["loud" in one["caption"] or one["image"][:6, :6].mean() > 150 for one in inputs])
        return np.stack([~seen, seen], axis=1).astype(float)

    result = explain(
        model,
        {"one": {"image": noise[0], "caption": "a loud small dog"}},
        samplers={
            "image": donor(list(noise[1:]), own=0) if fills_whole else donor(),
            "caption": ngram(["a small dog", "a big cat", "a small cat", "the dog"] * 3),
        },
        subsets={"image": grid(2), "caption": words()},
        test=butfor.irt(19),
        enough=0.9,
    )
    (row,) = result.enough().to_dict("records")
    told = {row["columns"], *row["alternatives"]}
    assert ("image: row 1 column 1",) in told
    assert (("caption: loud",) in told) == fills_whole
    assert np.isnan(result.sets.base[0]) == (not fills_whole)


def test_parts_that_are_neither_texts_nor_images_have_nothing_that_is_enough():
    with pytest.raises(butfor.InputError, match="enough= is for texts and images"):
        explain(
            lambda inputs: [one["age"] for one in inputs],
            [{"age": 3.0}],
            samplers={"age": lambda inputs, subset, draws, rng: list(rng.normal(size=len(inputs) * draws))},
            subsets={"age": [butfor.Subset("age", 0)]},
            enough=0.9,
        )


def test_the_report_shows_pictures_texts_and_tables(tmp_path):
    rng = np.random.default_rng(0)
    inputs = [
        {
            "photo": rng.integers(0, 255, (24, 24, 3), np.uint8),
            "note": "a <b>loud</b> dog",
            "values": {"age": 40.5 + k, "sex": "f"},
            "sound": np.zeros((2, 2)),  # of no kind that is shown
        }
        for k in range(10)
    ]

    def ages(given, subset, draws, rng):
        return [{**one, subset.index[0]: float(rng.integers(30))} for one in given for _ in range(draws)]

    result = explain(
        lambda batch: [float("loud" in one["note"]) + (one["values"]["age"] > 35) for one in batch],
        inputs,
        samplers={"photo": donor(), "note": ngram(["a <b>small</b> dog", "a dog", "a cat"] * 3), "values": ages},
        subsets={"photo": grid(2), "note": words(), "values": [Subset("age", ("age",))]},
    )
    page = result.report(tmp_path / "r.html").read_text()
    assert page.count('src="data:image/jpeg') == 10
    assert '<mark class="m chosen">loud</mark>' in page
    assert '<mark class="m chosen">age</mark>' in page
    assert "<b>loud" not in page
    assert "&lt;b&gt;" in page
    assert "img-src data:" in page
    assert ">sound<" not in page
