"""What mutants of the code showed to be untested: values exactly at a threshold, and sides that were never asked."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import butfor
from butfor.inference import features, holdout
from butfor.inference.adaptive import SLACK, weighted_bh
from butfor.inference.bounds import simes_bounds
from butfor.inference.decisions import DecisionRule, FlipShare
from butfor.inference.effects import interval
from butfor.inference.exact import Support, listed_evidence
from butfor.inference.few_shot import score_scale
from butfor.inference.irt import EarlyStop
from butfor.inference.moves import MeanChange
from butfor.inference.selection import Choice, Layers, bh, bonferroni
from butfor.inference.sequential import Sequential, Stopping
from butfor.inference.staged import BOUNDARY, Stages, above_noise, excess_interval
from butfor.inference.statistics import Rounding, StatisticSpec, Target, gather, value_set
from butfor.types import InputError


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
    alpha = (1 - 0.95) * SLACK
    assert (
        simes_bounds([alpha / 2, alpha])([0, 1]) == 2
    )  # p_(1) = alpha / 2 and p_(2) = alpha: both are equal to theirs


def test_what_is_closed_counts_no_more_though_its_batch_goes_on():
    test = Sequential(2, Stopping(2, 40, lambda p, family: np.zeros(2, bool)))
    rows, nothing = np.arange(2), np.zeros(2)
    for counted in (None, np.ones((2, 4), bool)):  # batches in parts, with and without draws that do not count
        hits = np.array([[0, 1, 1, 0], [0, 0, 0, 1]], bool)
        test.count(rows, hits, nothing, nothing.astype(int), counted)
        assert test.draws[0] == 3
        assert test.values[0] == 2 / 3
    assert test.exceeded.tolist() == [2, 2]
    assert test.draws[1] == 8
    test.count(rows, np.ones((2, 4), bool), nothing, nothing.astype(int))
    assert test.values.tolist() == [2 / 3, 2 / 8]


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
    stop = EarlyStop(3, 40, 0.06, gather("p", 3, 0, []), None, lambda p, family: family & (p <= 0.1))
    assert stop.steps.tolist() == [16, 20, 24, 29, 35, 40]
    assert stop.tail == pytest.approx(0.06 / (2 * 3 * 5))


def test_whoever_is_undecided_is_drawn_for_and_nobody_else():
    stop = EarlyStop(3, 40, 0.0, gather("p", 3, 0, []), None, lambda p, family: family & (p <= 0.5))
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


def test_more_is_drawn_where_bh_would_choose_it_if_the_share_were_sure():
    """Both intervals lie above the level, but not by enough for BH; that of a third holds the level."""
    shares = FlipShare(np.array([100, 100, 100]), np.array([0.66, 0.66, 0.51]), np.zeros(3))
    rule = DecisionRule(0.5, (np.full(3, 0.3), np.full(3, 0.3)), 0.02, np.zeros(3, int))
    low, high = rule.bounds(shares)
    assert (low > 0.5).tolist() == [True, True, False]
    assert high[2] > 0.5
    assert not rule.established(shares).any()
    assert rule.undecided(shares, 1000).tolist() == [0, 1, 2]
    assert rule.undecided(shares, 100).tolist() == []  # the cap
    sure = FlipShare(np.array([0, 100, 100]), shares.share, np.zeros(3))  # a list is not drawn on
    assert rule.undecided(sure, 1000).tolist() == [1, 2]


def test_two_values_have_clopper_and_pearsons_interval():
    low = interval(np.array([[1.0] + [0.0] * 60]))[1]
    ci = binomtest(0, 60).proportion_ci(0.95, "exact")
    assert low[0] == pytest.approx(1 - ci.high, abs=0.006)  # by 1,000 weights; a tail of .05 is .007 away
    low = interval(np.array([[1.0] + [0.0] * 60]), 0.5)[1]
    assert low[0] == pytest.approx(1 - binomtest(0, 60).proportion_ci(0.5, "exact").high, abs=0.004)


def competing(z, alpha):
    """Twelve parts that win, one that loses, and parts of theirs: eight of winners, then those of the loser."""
    evidence = np.r_[np.full(12, 3.0), -1.0, np.full(8, 2.0), z]
    resolution = np.r_[np.ones(13, int), np.full(8 + len(z), 2)]
    parent = np.r_[np.full(13, -1), np.arange(8), np.full(len(z), 12)]
    chosen = Choice("knockoff+", alpha, layers=Layers(resolution, parent)).chosen(evidence, np.ones(len(parent), bool))
    assert chosen[:13].tolist() == [True] * 12 + [False]
    return chosen[13:].tolist()


def test_where_rivals_compete_wins_without_a_chosen_parent_are_gone_and_losses_stay():
    assert competing([], 0.13) == [True] * 8  # (1 + 0) / 8 is .125
    assert competing([9.0], 0.13) == [True] * 8 + [False]
    assert competing([9.0], 0.12) == [False] * 9  # with the win it were 1 / 9
    assert competing([-2.5], 0.2) == [False] * 9  # (1 + 1) / 8; without the loss 1 / 8
    assert competing([-2.5], 0.25) == [True] * 8 + [False]


def test_folds_of_families_are_drawn_apart():
    one, same, other = (Choice._stream(family).random(4).tolist() for family in (0, 0, 1))
    assert one == same != other


def test_a_feature_at_its_threshold_is_chosen_in_a_tree_too():
    layers, p = Layers(np.zeros(1, int), np.array([-1])), np.array([0.9 * 0.1 * (1 + 0.5e-12)])
    assert features._least_alpha(layers, p, np.ones(1, bool), 0.1, None).tolist() == [0.1]
    assert features._least_alpha(layers, p * (1 + 1e-11), np.ones(1, bool), 0.1, None)[0] > 0.1


@pytest.mark.parametrize("rows", [[0, 3], [-1, 0], [3]])
def test_positions_beyond_the_hypotheses_are_refused(rows):
    with pytest.raises(InputError, match="rows must lie between 0 and 2"):
        simes_bounds([0.1, 0.2, 0.3])(rows)


def test_draws_of_a_list_are_what_is_listed_or_what_it_is_told():
    spec = StatisticSpec(Target("output"), Rounding(0.0, 0.0), "greater")
    outputs = np.array([[[2.0], [3.0], [1.0], [0.0]]])
    listed = Support(np.array([[0.1, 0.5, 0.3]]), np.array([0.1]), np.array([0.05]))
    nothing = np.zeros(1, int)
    found = listed_evidence(spec, nothing, nothing, outputs, listed)
    assert found.draws == 3
    assert found.values.tolist() == [pytest.approx(0.2)]
    assert found.least.tolist() == [0.05]
    assert listed_evidence(spec, nothing, nothing, outputs, listed, draws=7).draws == 7


def test_noise_that_is_surely_below_what_the_level_needs_is_tried_at_that():
    stages = Stages(4, -0.3)
    p = above_noise(stages, (4, 0), 1, 40, -0.3)  # q is 0 and b .3: shares differ by no less where at most 1 of 40 does
    assert p == pytest.approx(BOUNDARY + binom.cdf(1, 40, 0.3), rel=1e-9)


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_every_subset_of_an_image_has_a_stream_of_its_own():
    subsets_of: dict[float, set[object]] = {}

    def noise(batch, subset, draws, rng):
        subsets_of.setdefault(rng.random(), set()).add(subset.index)
        x1, y1, x2, y2 = subset.index
        out = [one.copy() for one in batch for _ in range(draws)]
        for one in out:
            one[y1:y2, x1:x2] = rng.integers(0, 255, (y2 - y1, x2 - x1, 3))
        return out

    images = list(np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3), dtype=np.uint8))
    asked = {"test": "irt", "draws": 20, "effects": None, "decide": False}
    butfor.image.explain(
        lambda batch: np.array([one.mean() for one in batch]), images, noise, boxes=butfor.image.grid(2), **asked
    )
    assert len(set().union(*subsets_of.values())) >= 4
    assert all(len(subsets) == 1 for subsets in subsets_of.values())


def test_the_centre_is_made_of_all_pilot_draws_and_of_no_others():
    spec = StatisticSpec(Target("output"), Rounding(0.0, 0.0), "two-sided", center=2)
    outputs = np.array([[[5.0], [1.0], [3.0], [9.0], [0.0]]])  # the input, two pilot draws, two draws
    found = value_set(np.zeros(1, int), outputs, spec)
    assert found.values.tolist() == [[5.0, 9.0, 0.0]]
    assert found.statistic.tolist() == [[3.0, 7.0, 2.0]]
