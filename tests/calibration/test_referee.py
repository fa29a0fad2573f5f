"""A few runs on the referee's beds: statements hold, or the column is called not calibrated; faults are seen."""

import json

import numpy as np
import pytest

import butfor
from benchmarks import referee
from benchmarks.referee import ALPHA, BEDS, FAIR, judged, one_run, summary
from butfor.tabular import gaussian
from butfor.tabular.residual.regression import NumericFit

RUNS = 4


def measured(name, where, size=300, runs=RUNS, **options):
    return summary([one for seed in range(runs) for one in one_run(name, size, where, seed, **options)])


def holds(means):
    """Single intervals at .95 and `necessary` at alpha, up to two standard errors, or no statement at all."""
    if means["flagged"] >= 0.9:
        return True
    held = means["held"] + 2 * means["held_se"] >= 0.95
    return held and means["wrong"] <= ALPHA + 2 * means["wrong_se"]


@pytest.mark.parametrize("corner", [False, True])
@pytest.mark.parametrize("name", BEDS)
def test_what_is_called_true_is_true(name, corner):
    rng = np.random.default_rng(0)
    bed = BEDS[name](rng)
    rows, given = bed.table(rng, 6, corner)
    edge = float(np.median(bed.model(bed.table(rng, 500, corner)[0])))
    drawn = np.stack([given.rvs(size=6, random_state=rng) for _ in range(600)])
    outputs = bed.step * np.round(drawn / bed.step) + 0.3 * bed.scale * rows["idle"].to_numpy()
    brute = ((outputs >= edge) != (bed.model(rows) >= edge)).mean(axis=0)
    assert brute == pytest.approx(bed.flips(rows, given, edge), abs=0.1)


@pytest.mark.parametrize("where", ["population", "corner"])
@pytest.mark.parametrize("name", FAIR)
def test_additive_beds_hold(name, where):
    means = measured(name, where)
    assert means["held"] >= 0.95
    assert judged("beds", {"bed": name}, means)["verdict"] == "met"


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("slope by sex", "population"),
        ("slope by sex", "corner"),
        ("codes", "population"),
        ("product", "population"),
        ("exclusive or", "population"),
        ("slope by site", "population"),
    ],
)
def test_decisions_hold_or_are_not_given(name, where):
    assert holds(measured(name, where))


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("bmi", "corner"),
        ("product", "corner"),
        ("codes", "corner"),
        ("exp", "corner"),
    ],
)
def test_rows_and_features_of_a_corner(name, where):
    means = measured(name, where)
    for what in ("rows", "features"):
        assert means[what] <= ALPHA + 2 * means[f"{what}_se"]


@pytest.mark.parametrize("name", ["linear", "codes"])
def test_proxies_do_not_pass_the_holdout_test(name):
    found = []
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, 24])
        bed = BEDS[name](rng)
        found.append(referee.tested(bed, rng, bed.table(rng, 300)[0], corner=False, seed=seed))
    assert np.mean(found) <= ALPHA + 2 * np.std(found, ddof=1) / np.sqrt(RUNS)


def test_additive_draws_are_caught(monkeypatch):
    """Planted fault: a linear sampler, and nobody who checks it."""

    def linear(model, rows, reference, **options):
        return butfor.explain(model, rows, gaussian(reference), control=False, **options)

    monkeypatch.setattr(referee, "explain", linear)
    means = measured("slope by sex", "population")
    assert not holds(means)
    assert "decision" in judged("beds", {"bed": "slope by sex"}, means)["verdict"]


def test_verdicts():
    sound = {"held": 0.96, "wrong": 0.0, "flagged": 0.0, "rows": 0.1, "features": 0.0, "holdout": None, "alarm": 0.1}
    sound |= {f"{name}_se": 0.01 for name in sound}

    def verdict(part="beds", bed="codes", fitted=None, **change):
        return judged(part, {"bed": bed, "fitted": fitted}, sound | change)["verdict"]

    assert verdict() == "met"
    assert verdict(held=0.94) == verdict(wrong=0.13) == "missed: decision"
    assert verdict(rows=0.13, holdout=0.2) == "missed: rows, holdout"
    assert verdict(held=0.5, wrong=0.9, flagged=0.9) == verdict(held=None, flagged=1.0) == "met"
    assert verdict(bed="linear") == "missed: silence"
    told = {"told": 0.5, "told_se": 0.1}
    assert verdict("seen", fitted=True, **told) == verdict("seen", fitted=False, **told) == "missed: told"
    assert verdict("simultaneous", all_held=0.9) == "missed: all together"
    assert verdict("power", features=0.2) == "missed: features"


def test_the_worst_resolution_counts():
    means = summary([{"rows": [0.0, 1.0, 0.0]}, {"rows": [0.0, 0.0]}])
    assert (means["rows"], means["rows_se"]) == (0.5, 0.5)
    assert summary([{"held": None}]) == {"held": None, "held_se": None}


def test_cells_that_are_there_are_kept(tmp_path, monkeypatch):
    asked = []

    def counted(name, size, where, seed, *, simultaneous):
        assert not simultaneous
        asked.append((size, where, seed))
        names = ("held", "all_held", "wrong", "necessary", "flagged", "alarm", "rows", "features", "holdout", "seconds")
        return [dict.fromkeys(names, 0.0)]

    monkeypatch.setattr(referee, "one_run", counted)
    options = {"beds": ("codes",), "where": ("corner",), "workers": 1, "out": tmp_path}
    referee.run(runs=2, sizes=(150,), **options)
    figures = referee.run(runs=2, sizes=(150, 300), **options)
    assert asked == [(150, "corner", 0), (150, "corner", 1), (300, "corner", 0), (300, "corner", 1)]
    referee.run(runs=3, sizes=(300,), **options)
    written = json.loads((tmp_path / "referee.json").read_text())
    assert len(asked) == 7
    assert [cell["runs"] for cell in written["figures"]["beds"]] == [2, 3]
    assert written["figures"]["beds"][0] == figures["beds"][0]
    with pytest.raises(butfor.InputError, match="beds must be some of"):
        referee.run(beds=("cods",))


def test_power_and_a_model_that_knows_the_reference():
    (power,) = one_run("linear", 150, 5.0, seed=0)
    assert power["rows_tpr"] > 0.5
    assert power["features_tpr"] == 1
    (seen,) = referee.one_seen("friedman", "forest", True, seed=0)
    assert set(seen) == {"rows", "features", "told", "seconds"}


def test_rows_far_beyond_a_curve_are_not_called_unusual(monkeypatch):
    """B = exp(A / 1.5) with A 3 sd from the reference: a straight continuation called .47 of the findings wrongly."""
    means = measured("exp", "corner", runs=12)
    assert means["rows"] <= 0.2
    assert means["rows_tpr"] >= 0.8
    monkeypatch.setattr(NumericFit, "continuation_error", lambda fit, design, inputs: np.zeros(len(inputs)))
    assert measured("exp", "corner", runs=12)["rows"] >= 0.35
