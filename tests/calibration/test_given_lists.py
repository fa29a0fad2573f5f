"""Images and texts given x, and the outlier statistic: levels with every null true, power, planted faults."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from butfor.image import explain
from butfor.inference import statistics
from butfor.inference.few_shot import competition
from butfor.inference.moves import BoundedChange
from butfor.inference.statistics import Rounding, StatisticSpec, Target, outlier_statistic, softmax, value_set
from calibration_checks import super_uniform

ROUNDING = Rounding(1e-7, 1e-7)
SPEC = StatisticSpec(Target("predicted"), ROUNDING, "greater", outlier="logits")
DRAWS = 10


def continuous(rng, size):
    """Logits of an input and its draws: exchangeable, spread unlike from one hypothesis to the next."""
    return rng.normal(size=(size, 1, 5)) + rng.exponential(size=(size, 1, 1)) * rng.normal(size=(size, DRAWS + 1, 5))


def tied(rng, size):
    """One of two outputs each, as of a model that hardly looks."""
    base, other = rng.normal(size=(2, size, 1, 5))
    return np.where(rng.random((size, DRAWS + 1, 1)) < 0.3, base, other)


def rounded(rng, size):
    """The same, with the last bits of a network."""
    return tied(rng, size) + 1e-9 * rng.normal(size=(size, DRAWS + 1, 5))


BEDS = {"continuous": continuous, "tied": tied, "rounded": rounded}


def ranks(bed, seed=0):
    outputs = BEDS[bed](np.random.default_rng(seed), 20_000)
    statistic = value_set(np.arange(len(outputs)), outputs, SPEC).statistic
    return statistic, (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1)


@pytest.mark.parametrize("bed", BEDS)
def test_the_outlier_statistic_is_valid_with_every_null_true(bed):
    statistic, above = ranks(bed)
    super_uniform((1 + above) / (DRAWS + 1))
    label, _, _ = competition(statistic)
    assert (label == 1).mean() <= 1 / (DRAWS + 1) + 4 * np.sqrt(0.08 / len(label))
    if bed == "continuous":
        assert (label == 1).mean() >= 1 / (DRAWS + 1) - 4 * np.sqrt(0.08 / len(label))


def test_a_centre_that_knows_the_observed_input_is_caught(monkeypatch):
    """Planted faults: the mean of the draws alone; a strict inequality, with ties."""

    def from_draws(outputs, spec, inputs):
        shares = softmax(outputs)
        centre = shares[:, 1:].mean(axis=1, keepdims=True)
        return np.sqrt(0.5 * ((np.sqrt(shares) - np.sqrt(centre)) ** 2).sum(axis=2))

    monkeypatch.setattr(statistics, "outlier_statistic", from_draws)
    with pytest.raises(AssertionError):
        super_uniform((1 + ranks("continuous")[1]) / (DRAWS + 1))
    monkeypatch.undo()
    statistic, _ = ranks("tied")
    strict = (statistic[:, 1:] > statistic[:, :1]).sum(axis=1)
    with pytest.raises(AssertionError):
        super_uniform((1 + strict) / (DRAWS + 1))


def test_the_outlier_statistic_sees_a_change_of_class_in_every_draw():
    """Where the class of all draws is another, the class that is largest over all of them is not the input's."""
    rng = np.random.default_rng(0)
    outputs = 0.3 * rng.normal(size=(400, DRAWS + 1, 5))
    outputs[:, 0, 0] += 3
    outputs[:, 1:, 1] += 4
    spread = outlier_statistic(outputs, SPEC, np.arange(400))
    assert (spread[:, 0] > spread[:, 1:].max(axis=1)).mean() > 0.99


# ---- by how much a part moves a probability, from few draws ------------------------------------------------------

LEAST, OBSERVED = 0.05, 0.9
CHANGES = {  # of a probability of .9, with a mean of .05: the boundary
    "normal": lambda rng, shape: np.clip(LEAST + 0.02 * rng.normal(size=shape), OBSERVED - 1, OBSERVED),
    "skewed": lambda rng, shape: np.minimum(rng.exponential(LEAST, shape), OBSERVED),
    "left": lambda rng, shape: np.maximum(2 * LEAST - rng.exponential(LEAST, shape), OBSERVED - 1),
    "heavy": lambda rng, shape: np.clip(LEAST + 0.01 * rng.standard_t(3, shape), OBSERVED - 1, OBSERVED),
    "lumped": lambda rng, shape: OBSERVED * (rng.random(shape) < LEAST / OBSERVED),
    "both ways": lambda rng, shape: np.where(rng.random(shape) < 0.15, OBSERVED, OBSERVED - 1),
    "rare loss": lambda rng, shape: np.where(rng.random(shape) < 0.02, OBSERVED - 1, 0.052 / 0.98),
    "none": lambda rng, shape: np.full(shape, LEAST),
}
LEAP = 0.5  # the probability that a rare fill makes certain: one in 20 or 10 adds .5, all others take a little off
CHANGES |= {
    "a leap in 20": lambda rng, shape: leaping(rng, shape, 0.05),
    "a leap in 10": lambda rng, shape: leaping(rng, shape, 0.1),
}


def leaping(rng, shape, share):
    little = (LEAST + LEAP * share) / (1 - share) + 0.02 * (rng.random(shape) - 0.5)
    return np.where(rng.random(shape) < share, -LEAP, little)


def bounded(changes):
    size, draws = changes.shape
    observed = LEAP if (changes == -LEAP).any() else OBSERVED
    ends = np.array([[observed - 1], [observed]]) * np.ones(size)
    return BoundedChange(changes, np.full(size, draws), changes.mean(axis=1), ends, np.ones(size))


def first_crossing(law, runs=4000, seed=0):
    """The least p-value that whoever stops where it is least gets: after 10 draws, 22 and 40."""
    changes = CHANGES[law](np.random.default_rng(seed), (runs, 40))
    return np.min([bounded(changes[:, :n]).p_value(LEAST) for n in (10, 22, 40)], axis=0)


@pytest.mark.parametrize("law", CHANGES)
def test_changes_hold_whenever_drawing_stops(law):
    super_uniform(first_crossing(law))
    low, high = bounded(CHANGES[law](np.random.default_rng(1), (1000, 22))).bounds(0.05)
    truth = LEAST if law != "both ways" else 0.15 * OBSERVED + 0.85 * (OBSERVED - 1)
    assert ((low <= truth + 1e-6) & (truth <= high + 1e-6)).mean() >= 0.95


def test_a_range_taken_from_the_draws_is_caught(monkeypatch):
    """Planted fault: no draw can lie below the least that was seen."""

    def seen(changes):
        known = honest(changes)
        return replace(known, ends=np.stack([np.minimum(changes.min(axis=1), LEAST - 1e-3), known.ends[1]]))

    honest = bounded
    monkeypatch.setitem(globals(), "bounded", seen)
    with pytest.raises(AssertionError):
        super_uniform(first_crossing("rare loss"))


def test_students_t_is_caught():
    """Planted fault: with no leap among few draws, t is sure of what the leaps undo."""
    changes = CHANGES["a leap in 20"](np.random.default_rng(0), (4000, 10))
    t = (changes.mean(axis=1) - LEAST) / (changes.std(axis=1, ddof=1) / np.sqrt(10))
    with pytest.raises(AssertionError):
        super_uniform(stats.t.sf(t, 9))


@pytest.mark.parametrize(("drop", "draws"), [(0.09, 40), (0.12, 22), (0.4, 10)])
def test_sizes_show_what_few_draws_show(drop, draws):
    rng = np.random.default_rng(0)
    changes = np.clip(drop + 0.04 * rng.normal(size=(500, draws)), OBSERVED - 1, OBSERVED)
    assert (bounded(changes).low(0.05) > LEAST).mean() > 0.95


# ---- whole runs: regions picked by looking -----------------------------------------------------------------------

SIDE = 16


def pictures(rng, count):
    return [rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for _ in range(count)]


def redraw(images, subset, draws, rng):
    x1, y1, x2, y2 = subset.index
    out = []
    for one in images:
        for _ in range(draws):
            new = one.copy()
            new[y1:y2, x1:x2] = rng.integers(0, 256, (y2 - y1, x2 - x1, 3), dtype=np.uint8)
            out.append(new)
    return out


redraw.changes_subset_only = True


def reads_corner(images):
    """Two classes by the first pixel of the first cell, with a probability that moves little by the second."""
    x = np.array([[one[0, 0, 0], one[0, SIDE // 2, 0]] for one in images]) / 255
    p = np.clip(0.02 + 0.96 * (x[:, 0] > 0.35) - 0.03 * x[:, 1] * (x[:, 0] > 0.35), 0, 1)
    return np.stack([1 - p, p], axis=1)


HALF = SIDE // 2
BOXES = {f"cell {k}": (HALF * (k % 2), HALF * (k // 2), HALF * (k % 2 + 1), HALF * (k // 2 + 1)) for k in range(4)}


def corner_run(seed, **settings):
    rng = np.random.default_rng(seed)
    images = pictures(rng, 8)
    with warnings.catch_warnings(action="ignore"):
        return explain(reads_corner, images, redraw, boxes=BOXES, test="few-shot", seed=seed, **settings), images


def test_false_claims_given_x_are_few_and_true_ones_are_made():
    """Cell 0 moves by .6 or .33 of .93 and flips .35 or .65 of draws; cell 1 moves at most .03; others nothing."""
    wrong, found, total, decisive, could = 0, 0, 0, 0, 0
    for seed in range(8):
        result, images = corner_run(seed)
        cell = result.table.subset.to_numpy() == "cell 0"
        wrong += int(result.moved.moves[~cell].any() or result.decided.necessary[~cell].any())
        low = np.array([one[0, 0, 0] / 255 <= 0.35 for one in images])
        wrong += int(result.decided.necessary[cell][~low].any())  # .35 of draws flip
        found, total = found + result.moved.moves[cell].sum(), total + cell.sum()
        decisive, could = decisive + result.decided.necessary[cell][low].sum(), could + low.sum()
    assert wrong <= 2
    assert found / total > 0.9
    assert could > 10


def test_draws_go_on_only_where_they_can_tell():
    result, _ = corner_run(0)
    cell = result.table.subset.to_numpy() == "cell 0"
    assert (result.decided.draws[~cell] == 10).all()
    assert result.decided.draws.max() <= 40
