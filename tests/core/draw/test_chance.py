"""Samplers that always draw the same, and samplers that change more than they may: found out whatever they say."""

import numpy as np
import pytest

import butfor
from butfor.evaluation.hypotheses import Watch

RNG = np.random.default_rng(0)
TABLE, REFERENCE = RNG.normal(size=(12, 3)), RNG.normal(size=(80, 3))
IMAGES = [RNG.integers(0, 256, (12, 12, 3), dtype=np.uint8) for _ in range(4)]
TEXTS = ["a good film and a long one", "a bad film, very bad indeed", "it was short and it was fine"] * 2


def zeros(rows, subset, draws, rng):
    """The newcomer's first sampler of a table."""
    out = np.repeat(rows, draws, axis=0)
    out[:, subset.index] = 0
    return out


def grey(images, subset, draws, rng):
    x1, y1, x2, y2 = subset.index
    out = [image.copy() for image in images for _ in range(draws)]
    for image in out:
        image[y1:y2, x1:x2] = 127
    return out


def blank(texts, subset, draws, rng):
    start, end = subset.index
    return [text[:start] + "___" + text[end:] for text in texts for _ in range(draws)]


RUNS = {
    "table": lambda **asked: butfor.explain(lambda rows: rows.sum(axis=1), TABLE, zeros, **asked),
    "image": lambda **asked: butfor.image.explain(lambda batch: [x.mean() for x in batch], IMAGES, grey, **asked),
    "text": lambda **asked: butfor.text.explain(lambda texts: [t.count("o") for t in texts], TEXTS, blank, **asked),
}


# Was wrong once: K equal draws can never win, so few-shot chose 41 of 90 regions with every null true and promised FDR.
@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot"])
@pytest.mark.parametrize("kind", RUNS)
def test_an_undeclared_constant_is_refused(kind, test):
    with pytest.raises(butfor.InputError, match=r"needs draws that differ, but .* always draws the same"):
        RUNS[kind](test=test, draws=20)


@pytest.mark.parametrize("kind", RUNS)
def test_one_shot_runs_and_promises_nothing_if_it_chooses(kind):
    result = RUNS[kind](test="osft", alternative="two-sided", alpha=0.4)
    assert result.chosen.any() == (result.guarantee.controls == "nothing")


def test_filters_do_not_hide_it():
    filtered = butfor.plausible(butfor.image.telea(), lambda batch: np.ones(len(batch)), 0.5)
    result = butfor.image.explain(lambda batch: [x.mean() for x in batch], IMAGES, filtered)
    assert result.record.test == "osft"
    assert result.guarantee.controls == "nothing"


def test_a_constant_column_beside_others_is_no_constant_sampler():
    reference = REFERENCE.copy()
    reference[:, 0] = 5.0
    result = butfor.explain(lambda rows: rows.sum(axis=1), np.tile(TABLE, (3, 1)), butfor.tabular.neighbours(reference))
    assert len(result.chosen) == 108


def test_being_sure_of_what_stands_there_is_no_fault():
    watch = Watch()
    watch.compare(["so"] * 50, [["so", "so"]] * 50)
    assert not watch.is_degenerate
    watch.compare(["so"] * 20, [["as", "as"]] * 20)
    assert watch.is_degenerate
    watch.compare(["so"], [["as", "if"]])
    assert not watch.is_degenerate


# Was wrong once: texts and images of a user's sampler were taken as they came.
def test_a_text_that_is_changed_elsewhere_is_refused():
    def louder(texts, subset, draws, rng):
        return [f"{text} awful {rng.random()}" for text in texts for _ in range(draws)]

    with pytest.raises(butfor.ModelError, match=r"changed the text outside subset 'a'; only text\[0:1\] may change"):
        butfor.text.explain(lambda texts: [len(t) for t in texts], TEXTS, louder)
    with pytest.raises(butfor.ModelError, match="changed the text outside subset"):
        butfor.multimodal.explain(
            lambda batch: [len(item["caption"]) for item in batch],
            [{"caption": text} for text in TEXTS],
            samplers={"caption": louder},
            subsets={"caption": butfor.text.words()},
        )


def test_a_part_that_is_not_its_own_is_refused():
    def meddling(items, subset, draws, rng):
        return [{**item, "title": str(rng.random())} for item in items for _ in range(draws)]

    meddling.whole = True
    with pytest.raises(butfor.ModelError, match="changed the part 'title', too"):
        butfor.multimodal.explain(
            lambda batch: [len(item["caption"]) for item in batch],
            [{"caption": text, "title": "so"} for text in TEXTS],
            samplers={"caption": meddling},
            subsets={"caption": butfor.text.words()},
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda image, rng: image.astype(float) / 255, r"returned float64 \(12, 12, 3\) .*expected whole images"),
        (lambda image, rng: image[:5], r"returned uint8 \(5, 12, 3\)"),
        (lambda image, rng: rng.integers(0, 256, image.shape, dtype=np.uint8), "changed pixels outside subset"),
        (lambda image, rng: "image", "returned str"),
    ],
)
def test_an_image_that_is_not_like_the_one_given_is_refused(change, said):
    def own(images, subset, draws, rng):
        return [change(image, rng) for image in images for _ in range(draws)]

    with pytest.raises(butfor.ModelError, match=said):
        butfor.image.explain(lambda batch: [np.mean(x) for x in batch], IMAGES, own)
