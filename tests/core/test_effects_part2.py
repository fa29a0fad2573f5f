"""Effects of every test: for the chosen only, from draws that no test has seen, with intervals that cover."""

import numpy as np
import pytest
from scipy.stats import binom

import butfor
from butfor.tabular import from_values

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
RUNS = {
    "sequential": {"test": "sequential"},
    "sequential two-sided": {"test": "sequential", "alternative": "two-sided"},
    "irt": {"test": "irt", "draws": 99},
    "early stop": {"test": "irt", "draws": 200, "early_stop": True},
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


def sums(rows):
    return rows.sum(axis=1)


def run(model, rows, **settings):
    return butfor.explain(model, rows, NORMAL, **{"alternative": "greater", "alpha": 0.1, **settings})


ROWS = np.random.default_rng(0).normal([4.0, 0.0], 1.0, size=(20, 2))


@pytest.mark.parametrize("name", RUNS)
def test_effects_come_from_draws_that_the_test_has_not_seen(name):
    with_effects, without = Counting(sums), Counting(sums)
    result = run(with_effects, ROWS, **RUNS[name])
    plain = run(without, ROWS, keep_effects=False, **RUNS[name])
    assert result.chosen.tolist() == plain.chosen.tolist()
    assert 0 < result.chosen.sum() < len(result.chosen)
    assert with_effects.rows[: len(without.rows)] == without.rows  # the test itself is the same
    extra = with_effects.rows[len(without.rows) :]
    observed = {row.tobytes() for row in ROWS}
    fresh = [row for row in extra if row not in observed]
    assert not set(fresh) & set(without.rows)
    assert len(set(fresh)) == len(fresh)
    if name != "picked":
        assert len(fresh) == result.chosen.sum() * DRAWS[RUNS[name]["test"]]


@pytest.mark.parametrize("name", RUNS)
def test_effects_are_given_for_the_chosen_only(name):
    table = run(sums, ROWS, **RUNS[name]).table
    for column in ("effect", "effect_low", "effect_high"):
        assert (table[column].notna() == table.chosen).all()
    chosen = table[table.chosen]
    assert (chosen.effect_low <= chosen.effect).all()
    assert (chosen.effect <= chosen.effect_high).all()
    assert run(sums, ROWS, keep_effects=False, **RUNS[name]).table.effect.isna().all()


def test_selecting_more_does_not_make_up_effects():
    result = run(sums, ROWS)
    more = result.select(alpha=0.6)
    assert more.chosen.sum() > result.chosen.sum()
    assert (more.table.effect.notna() == result.chosen).all()


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
    table = run(model, rows, alpha=0.3, h=3, draws=400).table
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
