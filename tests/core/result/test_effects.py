"""Effects: for the chosen only, from draws that no test has seen, with honest intervals."""

import numpy as np
import pytest
from scipy.stats import binom

import butfor
from butfor.inference.effects import interval
from butfor.tabular import from_values

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))

CONTINUOUS = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "heavy": (lambda rng, shape: rng.standard_t(4, size=shape), 0.0),
    "uniform": (lambda rng, shape: rng.uniform(size=shape), 0.5),
}
SHARES = (0.5, 0.2, 0.05, 0.02, 0.005)


def coverage(null, mean, observed):
    effect, low, high = interval(np.concatenate([np.full((len(null), 1), observed), null], axis=1))
    np.testing.assert_allclose(effect, observed - null.mean(axis=1))
    assert (low <= effect).all()
    assert (effect <= high).all()
    return np.mean((low <= observed - mean) & (observed - mean <= high))


@pytest.mark.parametrize("law", CONTINUOUS)
@pytest.mark.parametrize("observed", [0.0, 3.0])
def test_intervals_cover_the_effect_of_continuous_outputs(law, observed):
    draw, mean = CONTINUOUS[law]
    null = draw(np.random.default_rng(0), (4000, 200))
    assert 0.93 <= coverage(null, mean, observed) <= 0.99  # tests/calibration/test_effect_coverage.py bounds the width


@pytest.mark.parametrize("share", SHARES)
def test_intervals_cover_the_effect_of_two_valued_outputs(share):
    null = (np.random.default_rng(0).uniform(size=(4000, 200)) < share) * 1.0
    assert coverage(null, share, observed=1.0) >= 0.93


@pytest.mark.parametrize("share", SHARES)
def test_intervals_cover_the_effect_of_a_vote(share):
    """Four values, as the mean of three trees' votes has."""
    null = np.random.default_rng(0).binomial(3, share, size=(4000, 200)) / 3
    assert coverage(null, share, observed=1.0) >= 0.93


def test_sixteen_draws_cover_as_well():
    rng = np.random.default_rng(0)
    assert 0.93 <= coverage(rng.normal(size=(4000, 16)), 0.0, 1.0) <= 0.99
    for share in SHARES:
        assert coverage((rng.uniform(size=(4000, 16)) < share) * 1.0, share, 1.0) >= 0.93


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_two_values_with_rounding_noise_are_still_two_values(share):
    # Was (effects.py, interval): distinct values are counted to the last bit, so a vote that comes out of BLAS with
    # rounding noise gets the t-interval (coverage .90 at a share of .02). Count values that differ by more than noise.
    rng = np.random.default_rng(0)
    null = (rng.uniform(size=(4000, 200)) < share) + 1e-14 * rng.normal(size=(4000, 200))
    assert coverage(null, share, observed=1.0) >= 0.93


# ---- runs -------------------------------------------------------------------------------------------------------


def sums(rows):
    return rows.sum(axis=1)


def run(model, rows, **settings):
    return butfor.explain(model, rows, NORMAL, **{"alternative": "greater", "alpha": 0.1, **settings})


SMALL = {"test": "irt", "draws": 19, "alpha": 0.3}


def test_effects_are_given_for_some_of_many():
    table = run(sums, np.random.default_rng(0).normal(1, 1, size=(100, 2)), **SMALL).table
    assert 0 < table.chosen.sum() < len(table)
    for column in ("effect", "effect_low", "effect_high"):
        assert table[column].notna().all()
    assert (table.effect_low < table.effect)[table.chosen].all()
    assert (table.effect < table.effect_high)[table.chosen].all()


def test_effects_can_be_left_out():
    with_effects, without = (run(sums, np.ones((60, 1)) * 3, effects=of, **SMALL) for of in ("chosen", None))
    assert with_effects.chosen.any()
    assert without.table.effect.isna().all()
    assert (with_effects.chosen == without.chosen).all()
    assert with_effects.rows > without.rows


def test_fresh_draws_are_unbiased_for_the_chosen_where_the_selecting_ones_are_not():
    """The winner's curse: the draws that made a hypothesis win are low by selection, new ones are not."""
    inputs = np.random.default_rng(1).normal(1, 1, size=(500, 2))
    result = run(sums, inputs, **SMALL)
    true = inputs.ravel()  # x - E x~ for every hypothesis, input-major
    chosen = np.flatnonzero(result.chosen)
    assert len(chosen) > 50
    fresh = result.effects.effect[chosen] - true[chosen]
    assert abs(fresh.mean()) < 4 * fresh.std() / np.sqrt(len(chosen))
    names = [(int(result.input_of[row]), result.subset_names[result.subset_of[row]]) for row in chosen]
    selecting = np.array(
        [inputs[i].sum() - result.counterfactuals(i, name, n=19).sum(axis=1).mean() for i, name in names]
    )
    flattered = selecting - true[chosen]
    assert flattered.mean() > 4 * flattered.std() / np.sqrt(len(chosen))


def test_the_interval_of_a_run_covers_the_effect():
    inputs = np.random.default_rng(2).normal(1.5, 1, size=(600, 1))
    table = run(sums, inputs, **SMALL).table
    chosen = table.chosen.to_numpy()
    inside = ((table.effect_low <= inputs[:, 0]) & (inputs[:, 0] <= table.effect_high))[chosen]
    assert chosen.sum() > 100
    assert inside.mean() >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / chosen.sum())


def test_effects_are_on_the_scale_of_the_link_and_of_the_class_that_was_tested():
    rng = np.random.default_rng(0)
    inputs, reference = rng.normal(6, 0.1, size=(40, 2)), rng.normal(size=(2000, 2))

    def softmax(rows):
        raised = np.exp(np.stack([rows[:, 0], np.zeros(len(rows))], axis=1))
        return raised / raised.sum(axis=1, keepdims=True)

    result = butfor.explain(softmax, inputs, reference, subsets=["x0"], test="irt", draws=99, link="logit", alpha=0.2)
    assert result.table.output.eq(0).all()
    assert result.chosen.all()
    np.testing.assert_allclose(result.table.effect, inputs[:, 0], atol=0.5)  # logit = x0, whose mean is 0


# ---- every test -------------------------------------------------------------------------------------------------

RUNS = {
    "sequential": {"test": "sequential"},
    "sequential two-sided": {"test": "sequential", "alternative": "two-sided"},
    "irt": {"test": "irt", "draws": 99},
    "early stop": {"test": butfor.irt(200, early_stop=True)},
    "e-bh": {"test": "irt", "rule": "e-bh"},
    "few-shot": {"test": "few-shot"},
    "osft": {"test": "osft", "alpha": 0.3},
    "picked": {"test": "few-shot", "picked": lambda outputs: outputs > -9},
}
DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}


class Counting:
    def __init__(self, model):
        self.model, self.rows = model, []

    def __call__(self, rows):
        self.rows += [row.tobytes() for row in rows]
        return self.model(rows)


ROWS = np.random.default_rng(0).normal([4.0, 0.0], 1.0, size=(20, 2))


@pytest.mark.parametrize("name", RUNS)
def test_effects_come_from_draws_that_the_test_has_not_seen(name):
    with_effects, without = Counting(sums), Counting(sums)
    result = run(with_effects, ROWS, **RUNS[name])
    plain = run(without, ROWS, effects=None, **RUNS[name])
    assert result.chosen.tolist() == plain.chosen.tolist()
    assert 0 < result.chosen.sum() < len(result.chosen)
    assert with_effects.rows[: len(without.rows)] == without.rows  # the test itself is the same
    extra = with_effects.rows[len(without.rows) :]
    observed = {row.tobytes() for row in ROWS}
    fresh = [row for row in extra if row not in observed]
    assert not set(fresh) & set(without.rows)
    assert len(set(fresh)) == len(fresh)
    if name != "picked":
        estimated = result.chosen.sum() * DRAWS[result.record.test]
        draws_on = result.record.test in ("sequential", "irt")  # to see what moves the output
        assert len(fresh) >= estimated if draws_on else len(fresh) == estimated


@pytest.mark.parametrize("name", RUNS)
def test_effects_are_given_for_the_chosen_only(name):
    table = run(sums, ROWS, effects="chosen", **RUNS[name]).table
    for column in ("effect", "effect_low", "effect_high"):
        assert (table[column].notna() == table.chosen).all()
    chosen = table[table.chosen]
    assert (chosen.effect_low <= chosen.effect).all()
    assert (chosen.effect <= chosen.effect_high).all()
    assert run(sums, ROWS, effects=None, **RUNS[name]).table.effect.isna().all()


def test_selecting_more_does_not_make_up_effects():
    result = run(sums, ROWS)
    more = result.select(alpha=0.6)
    fresh, new = result.chosen, more.chosen & ~result.chosen
    assert new.any()
    assert more.table.effect[fresh].notna().all()
    assert more.table.effect[new].isna().all()  # the draws that chose them would flatter them
    assert more.table.effect[~more.chosen].notna().all()


@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("osft", "picked")])
def test_every_hypothesis_has_an_effect_by_default(name):
    table = run(sums, ROWS, **RUNS[name]).table
    assert table.effect.notna().all()
    near = np.abs(table.effect - ROWS.ravel()) < 1.5
    assert near.mean() > 0.9
    assert name == "early stop" or ((table.surprise >= 0) & (table.surprise <= 1)).all()


MODELS = {
    "continuous": (lambda rows: rows[:, 0], lambda x: x),
    "skewed": (lambda rows: np.exp(rows[:, 0] / 2), lambda x: np.exp(x / 2) - np.exp(1 / 8)),
    "two values": (lambda rows: (rows[:, 0] > 1) * 1.0, lambda x: (x > 1) - 0.1586553),
    "two values, rare": (lambda rows: (rows[:, 0] > 2) * 1.0, lambda x: (x > 2) - 0.0227501),
    "a vote of three": (
        lambda rows: (rows[:, [0]] > [1, 1.5, 2]).mean(axis=1),
        lambda x: (x[:, None] > [1, 1.5, 2]).mean(axis=1) - np.mean([0.1586553, 0.0668072, 0.0227501]),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_intervals_of_a_run_miss_in_at_most_seven_percent(name):
    """Issue 3: 95 % intervals, 200 fresh draws. At most .07, and at most what a binomial of .07 may be by chance."""
    model, effect = MODELS[name]
    rows = np.random.default_rng(1).normal(3, 1, size=(2500, 1))
    table = run(model, rows, test="irt", draws=60, alpha=0.3).table
    chosen = table.chosen.to_numpy()
    true = effect(rows[:, 0])[chosen]
    missed = (table.effect_low[chosen] > true + 1e-9) | (table.effect_high[chosen] < true - 1e-9)
    assert chosen.sum() > 500
    assert missed.sum() <= binom.isf(0.01, chosen.sum(), 0.06)
    assert missed.mean() <= 0.07


@pytest.mark.parametrize("name", ["continuous", "two values, rare"])
def test_intervals_of_the_sequential_test_miss_in_at_most_seven_percent(name):
    model, effect = MODELS[name]
    rows = np.random.default_rng(2).normal(3, 1, size=(800, 1))
    table = run(model, rows, alpha=0.3, test=butfor.sequential(h=3), draws=400).table
    chosen = table.chosen.to_numpy()
    true = effect(rows[:, 0])[chosen]
    missed = (table.effect_low[chosen] > true) | (table.effect_high[chosen] < true)
    assert chosen.sum() > 300
    assert missed.mean() <= 0.07


def test_intervals_from_the_selecting_draws_would_miss_more():
    """What fresh draws are for: the draws that made one-shot differences large flatter the effect."""
    rows = np.random.default_rng(3).normal(0.5, 1, size=(3000, 1))
    result = run(lambda batch: batch[:, 0], rows, test="osft", alpha=0.45)
    chosen = result.chosen
    assert chosen.sum() > 100
    flattered = result.evidence.values[chosen] - rows[chosen, 0]
    honest = result.effects.effect[chosen] - rows[chosen, 0]
    assert flattered.mean() > 5 * flattered.std() / np.sqrt(chosen.sum())
    assert abs(honest.mean()) < 4 * honest.std() / np.sqrt(chosen.sum())


def test_effects_of_the_predicted_class_are_those_of_the_class_in_the_table():
    weights = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, -1.0]])
    rows = np.random.default_rng(4).normal([3.0, 0.0], 0.3, size=(15, 2))
    table = butfor.explain(lambda batch: (batch[:, :, None] * weights).sum(axis=1), rows, NORMAL).table
    first = table[(table.subset == "x0") & table.chosen]
    assert len(first) > 5
    slopes = weights[0, first.output.to_numpy()]
    np.testing.assert_allclose(first.effect, slopes * rows[first.input.to_numpy(), 0], atol=0.6)
