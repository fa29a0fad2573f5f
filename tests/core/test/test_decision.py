"""The but-for test of a decision: intervals that hold at any time, Holm, counting, and the nearest counterfactual."""

import numpy as np
import pytest
from scipy.stats import beta

import butfor
from butfor.inference.decisions import Decision, FlipShare, clopper_pearson, mixture_bounds
from butfor.run.decisions import _shares_of_error
from butfor.tabular import from_values


def test_the_fit_part_is_clopper_and_pearson():
    low, high = clopper_pearson(np.array([0.3, 0.0, 1.0]), np.full(3, 1 / 50), 0.05)
    hits = np.array([15, 0, 50])
    assert low == pytest.approx([beta.ppf(0.025, 15, 36), 0, beta.ppf(0.025, 50, 1)])
    assert high == pytest.approx([beta.ppf(0.975, 16, 35), beta.ppf(0.975, 1, 50), 1])
    assert hits.sum() == 65


def test_bounds_close_in_on_the_share_and_hold_it():
    draws = np.array([10, 100, 1000, 10_000])
    low, high = mixture_bounds(draws * 0.3, draws, 0.05)
    assert (np.diff(high - low) < 0).all()
    assert ((low < 0.3) & (high > 0.3)).all()


def peeking(rng, q, runs, draws, alpha, bounds):
    """How often the true share falls outside at some time."""
    flips = np.cumsum(rng.random((runs, draws)) < q, axis=1)
    missed = np.zeros(runs, bool)
    for n in range(1, draws + 1):
        low, high = bounds(flips[:, n - 1].astype(float), np.full(runs, n), alpha)
        missed |= (q < low) | (q > high)
    return missed.mean()


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_looking_at_every_draw_costs_nothing(q):
    missed = peeking(np.random.default_rng(1), q, 400, 150, 0.1, mixture_bounds)
    assert missed <= 0.1


def test_peeking_without_spending_is_caught():
    def naive(flips, draws, alpha):
        return clopper_pearson(flips / draws, 1 / draws, alpha)

    assert peeking(np.random.default_rng(1), 0.5, 400, 150, 0.1, naive) > 0.2


def test_what_is_listed_is_exact_and_a_fit_widens_it():
    known = FlipShare(np.array([0, 0]), np.array([0.6, 0.6]), np.array([0.0, 0.01]))
    low, high = known.bounds(0.05)
    assert low[0] == high[0] == 0.6
    assert low[1] < 0.55 < 0.65 < high[1]


@pytest.mark.parametrize("inputs", [1, 12])
def test_necessary_is_what_the_interval_says(inputs):
    """Was wrong once: Holm's procedure had other levels, and what it established had intervals below the level."""
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(60, 5)), rng.normal(1.2, 1, size=(inputs, 5))
    result = butfor.explain(lambda x: x[:, 0] + 0.5 * x[:, 1], rows, reference, decide=lambda y: y > 0.8)
    table = result.table
    assert (table.necessary == (table.flip_low > 0.5)).all()
    assert table.necessary.any()
    assert not table.necessary.all()


def test_intervals_err_by_the_number_that_stand_at_their_resolution():
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(60, 4)), rng.normal(size=(6, 4))
    hypotheses = butfor.explain(lambda x: x[:, 0], rows, reference, control=False, effects=None).hypotheses
    drawn, fitted = _shares_of_error(hypotheses)
    for level in np.unique(hypotheses.layers.resolution):
        own = hypotheses.layers.resolution == level
        assert drawn[own].sum() == pytest.approx(0.05)
        assert fitted[own].sum() == pytest.approx(0.01 * 6)  # of 6 inputs that share one fit


def test_a_rule_that_gives_no_decisions_is_refused():
    with pytest.raises(butfor.InputError, match="decide must turn outputs of 4 rows into 4 decisions"):
        Decision(lambda outputs: outputs.mean())(np.zeros((4, 1)))
    with pytest.raises(butfor.InputError, match="decide raised ZeroDivisionError"):
        Decision(lambda _: 1 / 0)(np.zeros((4, 1)))


def normal(inputs, subset, draws, rng):
    return rng.normal(size=(len(inputs) * draws, len(subset.index)))


INPUTS = np.array([[2.0, 0.0], [-2.0, 0.5], [0.1, 0.0]])


def explained(**settings):
    return butfor.explain(
        lambda rows: rows[:, 0], INPUTS, from_values(normal), decide=lambda outputs: outputs > 0, **settings
    )


def test_a_decision_hangs_on_the_column_that_makes_it():
    table = explained().table
    own = table[table.subset == "x0"]
    assert own.flip.to_numpy() == pytest.approx([0.5, 0.5, 0.5], abs=0.15)
    assert ((own.flip_low < 0.5) & (own.flip_high > 0.5)).all()
    other = table[table.subset == "x1"]
    assert (other.flip == 0).all()
    assert not table.necessary.any()  # a half is not more than a half
    assert explained(level=0.2).table.necessary.tolist() == [True, False] * 3


def test_the_nearest_that_changes_the_decision_is_the_nearest_drawn():
    result = explained()
    near = result.nearest(0, "x0")
    assert near.shape == (1, 2)
    assert near[0, 0] <= 0
    assert near[0, 1] == 0
    drawn = result.counterfactuals(0, "x0", n=3)[:, 0]
    assert near[0, 0] >= drawn[drawn <= 0].max(initial=-np.inf)
    assert result.nearest(0, "x1") is None


def test_sufficiency_keeps_the_subset_and_redraws_the_rest():
    table = explained(sufficient=True, level=0.4).table
    assert table.stay[table.subset == "x0"].tolist() == [1, 1, 1]
    assert table.sufficient[table.subset == "x0"].all()
    assert table.stay[table.subset == "x1"].to_numpy() == pytest.approx([0.5] * 3, abs=0.2)


def test_no_decision_is_asked_of_a_regression_or_when_it_is_turned_off():
    plain = butfor.explain(lambda rows: rows[:, 0], INPUTS, from_values(normal))
    assert "flip" not in plain.table
    with pytest.raises(butfor.InputError, match="asked about no decision"):
        plain.nearest(0, "x0")
    two = butfor.explain(lambda rows: np.column_stack([rows[:, 0], -rows[:, 0]]), INPUTS, from_values(normal))
    assert "flip" in two.table
    off = butfor.explain(
        lambda rows: np.column_stack([rows[:, 0], -rows[:, 0]]), INPUTS, from_values(normal), decide=False
    )
    assert "flip" not in off.table


def test_a_number_for_each_input_is_no_decision():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(butfor.InputError, match="different number for nearly every input"):
        butfor.explain(lambda x: x[:, 0], rows, from_values(normal), decide=lambda outputs: outputs)
