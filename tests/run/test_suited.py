"""test="by-cost": time decides which test is run, outputs never do, and naming the test gives the same result."""

import numpy as np
import pytest

import butfor.image as bi
from butfor import InputError, text
from butfor.engine.journal import told_before
from butfor.run import suited
from butfor.run.suited import expected_overlap

FLOWERS = [f"a {how} rose stood by the old gate" for how in ("red", "pale", "red", "white", "red", "small")]


def swapped(texts, subset, draws, rng):
    start, end = subset.index
    made = rng.choice(["big", "red", "old", "wet"], (len(texts), draws))
    return [one[:start] + str(word) + one[end:] for one, own in zip(texts, made, strict=True) for word in own]


def red(texts):
    return [one.count("red") + 0.01 * len(one) for one in texts]


def run(**options):
    return text.explain(red, FLOWERS, swapped, **{"test": "by-cost", "effects": None, **options})


@pytest.mark.parametrize(("limit", "test"), [(600.0, "sequential"), (0.0, "few-shot")])
def test_the_test_is_chosen_by_time_said_and_can_be_named(monkeypatch, limit, test):
    monkeypatch.setattr(suited, "LIMIT", limit)
    result, named = run(), run(test=test)
    assert result.provenance["test"] == test
    assert any(f"The test is {test}" in note and f"test='{test}' keeps it" in note for note in result.notes)
    np.testing.assert_array_equal(result.evidence.values, named.evidence.values)
    np.testing.assert_array_equal(result.chosen, named.chosen)
    assert result.rows == named.rows + len(FLOWERS)  # what measuring took is counted


def test_the_choice_does_not_depend_on_outputs(monkeypatch):
    seen = []
    monkeypatch.setattr(suited, "_timed", lambda do: seen.append(do()) or 0.001)
    first = run().provenance["test"]
    other = text.explain(lambda texts: [0.0] * len(texts), FLOWERS, swapped, test="by-cost", effects=None)
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
        options = {"test": "by-cost", "effects": None, "run_dir": place, "batch_rows": 4}
        return text.explain(breaks, FLOWERS, swapped, **options)

    monkeypatch.setattr(suited, "LIMIT", 0.0)
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path / "run")
    assert "few-shot" in told_before(tmp_path / "run")["test"]
    assert told_before(tmp_path / "none") == {}
    monkeypatch.setattr(suited, "LIMIT", 600.0)
    left[0] = 10**6
    again = begun(tmp_path / "run")
    assert again.provenance["test"] == "few-shot"
    assert any("as when this run was begun" in note for note in again.notes)
    assert begun(tmp_path / "other").provenance["test"] == "sequential"  # another run is free


def test_options_of_one_test_are_refused():
    with pytest.raises(InputError, match="draws= belongs to one test"):
        run(draws=5)


def test_images_where_draws_are_cheap_get_effects_for_every_region():
    rng = np.random.default_rng(0)
    noise = rng.integers(90, 110, (3, 16, 16, 3), dtype=np.uint8)

    def fill(inputs, subset, draws, rng):
        x1, y1, x2, y2 = subset.index
        made = [image.copy() for image in inputs for _ in range(draws)]
        for image in made:
            image[y1:y2, x1:x2] = rng.integers(90, 110, (y2 - y1, x2 - x1, 3))
        return made

    result = bi.explain(
        lambda batch: [x[:8, :8].mean() for x in batch], list(noise), fill, boxes="grid", test="by-cost"
    )
    assert result.provenance["test"] == "sequential"
    assert np.isfinite(result.effects.effect).all()


def test_expected_overlap():
    """Far from the threshold all come again; at it about a third of what either chooses is chosen by both."""
    assert expected_overlap(np.array([1e-4, 1e-4, 0.6]), 0.01, 10) > 0.99
    assert expected_overlap(np.full(200, 0.01), 0.01, 10) == pytest.approx(1 / 3, abs=0.05)


def test_the_expected_overlap_is_that_of_other_seeds():
    """Hypotheses whose rates are known, tested over and over: what is expected is what happens."""
    rng = np.random.default_rng(0)
    rate = np.exp(rng.uniform(np.log(1e-3), 0, 2000))
    chosen = [rng.binomial(990, rate) < 10 for _ in range(20)]
    shares = [(a & b).sum() / (a | b).sum() for a, b in zip(chosen[::2], chosen[1::2], strict=True)]
    assert expected_overlap(rate, 0.01, 10) == pytest.approx(np.mean(shares), abs=0.02)
