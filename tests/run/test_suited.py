"""test=None for images and texts: time decides which test is run, outputs never do, and it can be named."""

import time

import numpy as np
import pytest

import butfor.image as bi
from butfor import text
from butfor.evaluation.journal import told_before
from butfor.run import suited
from butfor.settings import sequential

HOW = ("red", "pale", "red", "white", "red", "small", "red", "tall", "red", "late")
FLOWERS = [f"a {how} rose stood by the old gate" for how in HOW]


def swapped(texts, subset, draws, rng):
    start, end = subset.index
    made = rng.choice(["big", "red", "old", "wet"], (len(texts), draws))
    return [one[:start] + str(word) + one[end:] for one, own in zip(texts, made, strict=True) for word in own]


def red(texts):
    return [one.count("red") + 0.01 * len(one) for one in texts]


def run(**options):
    return text.explain(red, FLOWERS, swapped, **{"effects": None, **options})


@pytest.mark.parametrize(("limit", "test"), [(600.0, "sequential"), (0.0, "few-shot")])
def test_the_test_is_chosen_by_time_said_and_can_be_named(monkeypatch, limit, test):
    monkeypatch.setattr(suited, "LIMIT", limit)
    result, named = run(), run(test=test)
    assert result.provenance["test"] == test
    assert any(f"The test is {test}" in note and f"test='{test}' keeps it" in note for note in result.notes)
    np.testing.assert_array_equal(result.evidence.values, named.evidence.values)
    np.testing.assert_array_equal(result.chosen, named.chosen)
    assert result.rows == named.rows + suited.ROWS + 1  # what measuring took is counted


@pytest.mark.parametrize("family", ["run", "input"])
def test_few_inputs_keep_a_promise_where_draws_are_dear(monkeypatch, tmp_path, family):
    """Few-shot promises nothing of fewer than 10 inputs, nor within one."""
    monkeypatch.setattr(suited, "LIMIT", 0.0)
    some = FLOWERS[:3] if family == "run" else FLOWERS

    def of(**options):
        return text.explain(red, some, swapped, effects=None, family=family, **options)

    result = of(run_dir=tmp_path)
    named = of(test=sequential(h=1))
    assert result.guarantee.controls == "FDR"
    assert (result.provenance["test"], result.provenance["h"]) == ("sequential", 1)
    assert any("test=butfor.sequential(h=1) keeps it" in note for note in result.notes)
    np.testing.assert_array_equal(result.evidence.values, named.evidence.values)
    assert of(test="few-shot").guarantee.controls == "nothing"


def test_the_choice_does_not_depend_on_outputs(monkeypatch):
    seen = []
    monkeypatch.setattr(suited, "_timed", lambda do: (0.001, seen.append(do()) or seen[-1]))
    first = run().provenance["test"]
    other = text.explain(lambda texts: [0.0] * len(texts), FLOWERS, swapped, effects=None)
    assert first == other.provenance["test"] == "sequential"
    assert seen


def test_a_run_that_goes_on_keeps_its_test(monkeypatch, tmp_path):
    left = [12]

    def breaks(texts):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return red(texts)

    def begun(place):
        options = {"effects": None, "run_dir": place, "batch_rows": 4}
        return text.explain(breaks, FLOWERS, swapped, **options)

    monkeypatch.setattr(suited, "LIMIT", 0.0)
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path / "run")
    assert "few-shot" in told_before(tmp_path / "run")["test"]
    assert told_before(tmp_path / "none") == {}
    left[0] = 10**6
    whole = begun(tmp_path / "whole")
    monkeypatch.setattr(suited, "LIMIT", 600.0)
    again = begun(tmp_path / "run")
    assert (again.rows, again.rows_asked) == (whole.rows, whole.rows_asked)  # was wrong once: measuring was left out
    assert again.provenance["test"] == "few-shot"
    assert any("as when this run was begun" in note for note in again.notes)
    assert begun(tmp_path / "other").provenance["test"] == "sequential"  # another run is free


@pytest.mark.parametrize("options", [{"draws": 5}, {"rule": "seqstep"}])
def test_options_of_one_test_choose_it_without_measuring(options):
    result = run(**options)
    assert result.provenance["test"] == "few-shot"
    assert not any("because of what this costs" in note for note in result.notes)


def test_reading_an_input_once_serves_all_of_its_words(monkeypatch):
    """Was wrong once: an infiller reads a text in one pass, and that was counted for every draw of every word."""
    monkeypatch.setattr(suited, "LIMIT", 5.0)
    read = set()

    def reads(texts, subset, draws, rng):
        if texts[0] not in read:
            time.sleep(0.05)
            read.add(texts[0])
        return swapped(texts, subset, draws, rng)

    assert text.explain(red, FLOWERS, reads, effects=None).provenance["test"] == "sequential"

    def slow(texts, subset, draws, rng):
        time.sleep(0.05 * draws)
        return swapped(texts, subset, draws, rng)

    assert text.explain(red, FLOWERS, slow, effects=None).provenance["test"] == "few-shot"


class Repeats:
    """Ten words, so that of many draws ten differ; it says so, or does not."""

    def __init__(self, says):
        self.repeats = lambda subset: says

    def __call__(self, texts, subset, draws, rng):
        return swapped(texts, subset, draws, rng)


@pytest.mark.parametrize(("says", "test"), [(True, "sequential"), (False, "few-shot")])
def test_equal_draws_are_one_row_of_the_cost(monkeypatch, says, test):
    """80 words x 140 draws x 0.1 s are more than five minutes, 80 x at most 5 that differ are not."""
    monkeypatch.setattr(suited, "_row_seconds", lambda context: 0.1)
    result = text.explain(red, FLOWERS, Repeats(says), effects=None)
    assert result.provenance["test"] == test


def test_images_where_draws_are_cheap_get_effects_for_every_region():
    rng = np.random.default_rng(0)
    noise = rng.integers(90, 110, (3, 16, 16, 3), dtype=np.uint8)

    def fill(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        made = [image.copy() for image in inputs for _ in range(draws)]
        for image in made:
            image[y1:y2, x1:x2] = rng.integers(90, 110, (y2 - y1, x2 - x1, 3))
        return made

    result = bi.explain(lambda batch: [x[:8, :8].mean() for x in batch], list(noise), fill, boxes="grid")
    assert result.provenance["test"] == "sequential"
    assert np.isfinite(result.effects.effect).all()
