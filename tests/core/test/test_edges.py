"""What mutants of the code showed to be untested: values exactly at a threshold, and sides that were never asked."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest

from butfor.inference import holdout
from butfor.inference.adaptive import SLACK, weighted_bh
from butfor.inference.bounds import simes_bounds
from butfor.inference.few_shot import score_scale
from butfor.inference.irt import EarlyStop
from butfor.inference.moves import MeanChange
from butfor.inference.selection import Choice, Layers, bh, bonferroni
from butfor.inference.sequential import Sequential, Stopping
from butfor.inference.staged import Stages, above_noise, excess_interval
from butfor.inference.statistics import Rounding, gather


def test_p_at_its_threshold_is_chosen_by_every_form_of_bh():
    for p in (0.1, 0.1 * SLACK):
        assert bh([p], 0.1).all()
        assert weighted_bh(np.array([p]), np.ones(1), 1.0, 0.1).all()
        assert Choice("bh", 0.1).chosen(np.array([p]), np.ones(1, bool)).all()


@pytest.mark.parametrize("above", [0.5e-12, 1.5e-12])
def test_q_is_at_most_alpha_exactly_where_the_rule_chooses(above):
    p = np.array([0.1 * (1 + above)])
    chosen = bonferroni(p, 0.1)
    assert (Choice("bonferroni", 0.1).least_alpha(p, np.ones(1, bool)) <= 0.1).tolist() == chosen.tolist()
    assert chosen.tolist() == [above < 1e-12]


def test_simes_rejects_a_p_value_at_its_threshold():
    assert simes_bounds([(1 - 0.95) * SLACK])([0]) == 1
    assert simes_bounds([(1 - 0.95) * SLACK * 1.001])([0]) == 0


def test_no_family_of_one_input_and_resolution_is_that_of_another():
    resolution = np.tile([0, 1, 2], 3)
    layers = Layers(resolution, np.full(9, -1))
    groups = Choice("bh", 0.1, families=np.repeat([0, 1, 2], 3), layers=layers).groups
    assert len(set(groups.tolist())) == 9
    assert Choice("bh", 0.1, layers=layers).groups.tolist() == resolution.tolist()


def test_a_drop_of_zero_is_not_turned():
    one = MeanChange(*(np.array(v) for v in ([9], [0.0], [0.1], [[-0.1], [0.3]], [[-0.4], [0.6]], [0.0]))).turned()
    assert (one.seen.ravel().tolist(), one.ends.ravel().tolist()) == ([-0.1, 0.3], [-0.4, 0.6])


def test_the_error_of_stopping_early_is_shared_by_both_sides_of_all_looks_but_the_last():
    stop = EarlyStop(3, 40, 0.06, gather("p", 3, 0, []), False, lambda p, family: family & (p <= 0.1))
    assert stop.steps.tolist() == [16, 20, 24, 29, 35, 40]
    assert stop.tail == pytest.approx(0.06 / (2 * 3 * 5))


def test_whoever_is_undecided_is_drawn_for_and_nobody_else():
    stop = EarlyStop(3, 40, 0.0, gather("p", 3, 0, []), False, lambda p, family: family & (p <= 0.5))
    rows, nothing = np.arange(3), np.zeros(3)
    assert stop.rejected_and_wanted()[1].all()  # nobody was looked at
    stop.count(rows, np.array([0, 16, 10]), np.ones(3, bool), nothing, nothing.astype(int))
    stop.narrow(np.ones(3, bool), stop.next_draws())
    rejected, wanted = stop.rejected_and_wanted()
    assert not rejected.any()  # 1 to 25, 17 to 41 and 11 to 35 of 41
    assert wanted.tolist() == [True, True, True]
    stop.count(rows, np.array([0, 8, 2]), np.ones(3, bool), nothing, nothing.astype(int))
    stop.narrow(np.ones(3, bool), np.full(3, 29))
    rejected, wanted = stop.rejected_and_wanted()
    assert rejected.tolist() == [True, False, False]  # at most 12; at least 25; 13 to 24
    assert wanted.tolist() == [False, False, True]


def test_looks_begin_where_none_of_them_can_be_a_yes_by_chance():
    assert Stages(8, 0.5, futile=0.25).looks == (2, 4, 8)  # .5^2 is .25, which ends it
    assert Stages(8, 0.5, futile=0.2).looks == (3, 6, 8)


def test_a_share_below_the_noise_is_compared_with_it_too():
    """A level below 0: q + .2 <= b; where b is at most .2 the share is 0."""
    stages = Stages(4, -0.2)
    p = [above_noise(stages, (stages.draws, yes), 6, 10, -0.2) for yes in range(5)]
    assert all(0 < one <= 1 for one in p)
    assert p == sorted(p, reverse=True)
    assert p[4] < 0.1 < p[0]


def test_the_slack_of_sums_is_that_of_the_model_or_of_33_bits():
    loss = holdout.squared_score(np.zeros(2)).losses
    made = partial(holdout.holdout, loss)
    assert made(Rounding(0.0, 0.0)).relative == holdout.SNAP
    assert made(Rounding(1e-3, 0.0)).relative == 1e-3


def test_the_gate_averages_all_draws_and_leaves_the_observed_one_out():
    y = np.arange(20.0)
    score = holdout.squared_score(y)
    right = [y, y + 5, y - 5]  # draws that average out to the truth
    assert not holdout.rises(np.column_stack(right)[:, :, None], score)
    wrong = [y, y + 5, y + 1]
    assert holdout.rises(np.column_stack(wrong)[:, :, None], score)
    better = [y + 9, y, y]  # the observed one is the worst
    assert not holdout.rises(np.column_stack(better)[:, :, None], score)


def test_spreads_of_zero_do_not_make_the_typical_one():
    spread = np.array([0.0, 0.0, 0.0, 2.0])
    assert score_scale(spread, 3, weight=1).tolist() == [1.0, 1.0, 1.0, 2.0]  # sqrt((4 + 3 s^2) / 4)
    assert score_scale(np.zeros(2), 3, weight=3).tolist() == [np.sqrt(0.5)] * 2


def test_a_look_is_left_out_only_where_it_could_reject_nothing():
    def test_of(choose):
        made = Sequential(2, Stopping(10, 100_000, choose))
        made.drawn_each, made.exceeded = 400, np.array([0, 0])
        made.draws = np.full(2, 400)
        return made.next_batch()

    never, first = test_of(lambda p, family: np.zeros(2, bool)), test_of(lambda p, family: np.array([True, False]))
    assert first == 100 < never  # the next step, although only one of two could be rejected


@pytest.mark.parametrize("changed", [0, 3, 12])
def test_the_excess_over_noise_takes_both_intervals_at_half_the_alpha(changed):
    stages = Stages(10, 0.5)
    outcome = (stages.draws, 7)
    low, high = stages.interval(outcome, 0.05)
    noise = binomtest(changed, 12).proportion_ci(0.95, "exact")
    found = excess_interval(stages, outcome, changed, 12, alpha=0.1)
    assert found == (pytest.approx(low - noise.high), pytest.approx(high - noise.low))
