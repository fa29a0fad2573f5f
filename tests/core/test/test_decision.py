"""The but-for test of a decision: intervals that hold at any time, BH, counting, and the nearest counterfactual."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import butfor
from butfor.inference.decisions import Decision, DecisionRule, FlipShare, clopper_pearson_low, mixture_low, p_values
from butfor.run.decisions import _rule
from butfor.settings import Settings
from butfor.tabular import from_values


def test_the_fit_part_is_clopper_and_pearson():
    share = np.array([0.3, 0.0, 1.0])  # of 50: 15, 0, 50
    low, high = FlipShare(np.zeros(3, int), share, np.full(3, 1 / 50)).bounds(0.05)
    assert low == pytest.approx([beta.ppf(0.025, 15, 36), 0, beta.ppf(0.025, 50, 1)])
    assert high == pytest.approx([beta.ppf(0.975, 16, 35), beta.ppf(0.975, 1, 50), 1])


def mixture_bounds(flips, draws, alpha):
    return mixture_low(flips, draws, alpha), 1 - mixture_low(draws - flips, draws, alpha)


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
        share = flips / draws
        return clopper_pearson_low(share, 1 / draws, alpha), 1 - clopper_pearson_low(1 - share, 1 / draws, alpha)

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
    assert (table.flip_low[table.necessary] > 0.5).all()
    assert table.necessary.any()
    assert not table.necessary.all()


def test_all_together_the_interval_alone_decides():
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(150, 5)), rng.normal(1.2, 1, size=(12, 5))

    def explained(**settings):
        return butfor.explain(lambda x: x[:, 0] + 0.5 * x[:, 1], rows, reference, decide=lambda y: y > 0.8, **settings)

    single, together = explained().table, explained(simultaneous=True).table
    assert (together.necessary == (together.flip_low > 0.5)).all()
    assert (together.flip_high - together.flip_low).mean() > 1.2 * (single.flip_high - single.flip_low).mean()
    assert together.necessary.sum() < single.necessary.sum()


def test_a_p_value_is_the_error_level_at_which_the_interval_leaves_the_level():
    shares = FlipShare(np.array([40, 40, 0, 40]), np.array([0.85, 0.55, 0.9, 0.95]), np.array([0.01, 0.01, 0.02, 0.0]))
    p = p_values(shares, 0.5, 0.05)
    assert p[1] == 1.0  # its own interval holds the level
    for row in (0, 2, 3):
        assert shares.low(1.01 * p[row])[row] > 0.5 > shares.low(0.99 * p[row])[row] - 1e-6
    assert (p_values(replace(shares, off=np.full(4, 0.1)), 0.5, 0.05) >= p).all()


def stopped(rng, q, rows, level, alpha, rule_alpha=0.05, cap=400):
    """Draw from known shares as a run does; what is established at the end."""
    size = len(q)
    rule = DecisionRule(level, (np.full(size, rule_alpha),) * 2, alpha, np.zeros(size, int))
    draws, flips = np.full(size, 32), rng.binomial(32, q)
    while (more := rule.undecided(shares := FlipShare(draws, flips / draws, np.full(size, rows)), cap)).size:
        draws[more] += 16
        flips[more] += rng.binomial(16, q[more])
    return rule.established(shares), shares


def test_the_share_of_errors_is_at_most_alpha_whenever_drawing_stops():
    """One in two lies just on the level: the worst truths."""
    rng, q = np.random.default_rng(3), np.repeat([0.5, 0.85], 30)
    wrong, right = [], []
    for _ in range(60):
        established, _ = stopped(rng, q, 0.0, 0.5, 0.1)
        wrong.append(established[:30].sum() / max(established.sum(), 1))
        right.append(established[30:].mean())
    assert np.mean(wrong) <= 0.1
    assert np.mean(right) > 0.95


def test_peeking_at_binomial_p_values_is_caught(monkeypatch):
    """Planted fault: p-values that hold at one fixed time only, looked at after every batch."""

    def fixed(shares, level, largest, low=None):
        flips = np.rint(shares.share * shares.draws)
        return np.where(shares.draws > 0, binom.sf(flips - 1, shares.draws, level), 1.0)

    monkeypatch.setattr("butfor.inference.decisions.p_values", fixed)
    rng, wrong, q = np.random.default_rng(3), [], np.repeat([0.5, 0.85], 30)
    rule = DecisionRule(0.5, (np.full(60, 0.05),) * 2, 0.1, np.zeros(60, int))
    for _ in range(60):
        draws, flips, kept = np.full(60, 32), rng.binomial(32, q), np.zeros(60, bool)
        for _ in range(23):
            kept |= rule.established(FlipShare(draws, flips / draws, np.zeros(60)))
            draws, flips = draws + 16, flips + rng.binomial(16, q)
        wrong.append(kept[:30].sum() / max(kept.sum(), 1))
    assert np.mean(wrong) > 0.15


def test_drawing_goes_on_until_the_rule_has_decided():
    rng = np.random.default_rng(0)
    established, shares = stopped(rng, np.repeat([0.05, 0.75], 20), 1 / 5000, 0.5, 0.1)
    assert established.tolist() == [False] * 20 + [True] * 20
    assert shares.draws[:20].max() <= 48 < shares.draws[20:].max() < 400
    rough = stopped(rng, np.full(20, 0.6), 1 / 20, 0.5, 0.1)[1]
    assert (rough.draws == 32).mean() > 0.8  # the fit alone leaves it open


def test_intervals_err_by_the_number_that_stand_at_their_resolution():
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(60, 4)), rng.normal(size=(6, 4))
    hypotheses = butfor.explain(lambda x: x[:, 0], rows, reference, control=False, effects=None).hypotheses
    resolution = hypotheses.layers.resolution
    drawn, fitted = _rule(hypotheses, Settings.of({"simultaneous": True}), 0.5, resolution, None).alphas
    for level in np.unique(resolution):
        own = resolution == level
        assert drawn[own].sum() == pytest.approx(0.05)
        assert fitted[own].sum() == pytest.approx(0.01 * 6)  # of 6 inputs that share one fit


def test_a_rule_that_gives_no_decisions_is_refused():
    with pytest.raises(butfor.InputError, match="decide must turn outputs of 4 rows into 4 decisions"):
        Decision(lambda outputs: outputs.mean())(np.zeros((4, 1)))
    with pytest.raises(butfor.InputError, match="decide raised ZeroDivisionError"):
        Decision(lambda _: 1 / 0)(np.zeros((4, 1)))
    for nothing in (None, np.nan):
        lacking = np.array(["yes", nothing, "no", "yes"], dtype=object)
        with pytest.raises(butfor.InputError, match=r"decide gave nothing \(NaN or None\) for 1 of 4 rows"):
            Decision(lambda _, made=lacking: made)(np.zeros((4, 1)))
    with pytest.raises(butfor.InputError, match="for 2 of 4 rows"):
        Decision(lambda _: np.array([0.0, np.nan, 1.0, np.nan]))(np.zeros((4, 1)))
    assert Decision(lambda _: np.array(["yes", "no"], dtype=object))(np.zeros((2, 1))).tolist() == ["yes", "no"]


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
    with pytest.warns(butfor.ReachWarning, match="No draw that was kept changes the decision of input 0 with 'x1' red"):
        assert result.nearest(0, "x1") is None


PEOPLE = pd.DataFrame(np.random.default_rng(1).normal(size=(150, 3)), columns=["income", "debt", "age"])
PEOPLE["town"] = pd.Categorical(np.random.default_rng(2).choice(["Ulm", "Jena"], 150))


def approved(rows):
    return rows.income - rows.debt + 0.5 * rows.age + (rows.town == "Ulm")


def asked(model=approved, inputs=4, **settings):
    decide = {"decide": lambda outputs: outputs > 0.5, "control": False, "seed": 3, **settings}
    return butfor.explain(model, PEOPLE[:inputs], PEOPLE[50:], **decide)


def gower(made, observed):
    numbers = ["income", "debt", "age"]
    spans = np.ptp(pd.concat([PEOPLE[:4], PEOPLE[50:]])[numbers].to_numpy(), axis=0)
    away = np.abs(made[numbers].to_numpy() - observed[numbers].to_numpy(dtype=float)) / spans
    return away.sum(axis=1) + (made.town.astype(str) != observed.town).to_numpy()


RULED_OUT = {
    "nothing": ((), {}),
    "age stays": (("age",), {}),
    "income up": ((), {"income": "up"}),
    "debt down, age and town stay": (("age", "town"), {"debt": -1}),
    "income down, debt up": ((), {"income": "down", "debt": 1}),
}


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
@pytest.mark.parametrize(("fixed", "direction"), RULED_OUT.values(), ids=RULED_OUT)
def test_the_nearest_of_all_draws_of_single_columns_that_keeps_to_what_may_change(fixed, direction):
    seen = []

    def model(rows):
        seen.append(rows.copy())
        return approved(rows)

    alone = {"enough": None, "min_effect": 50.0}  # no further draws, of other sets or of sizes
    result = asked(model, subsets="columns", **alone)
    drawn = pd.concat(seen, ignore_index=True)
    for name in result.input_names:
        observed = PEOPLE.loc[name]
        made = drawn[(drawn == observed).sum(axis=1) == 3]
        may = (approved(made) > 0.5) != (approved(PEOPLE.loc[[name]]).iloc[0] > 0.5)
        for column in fixed:
            may &= made[column] == observed[column]
        for column, way in direction.items():
            may &= (made[column] - observed[column]) * {"up": 1, "down": -1}.get(way, way) >= 0
        near = result.nearest(name, fixed=fixed, direction=direction)
        assert (near is None) == (not may.any())
        if near is not None:
            assert gower(near, observed)[0] == pytest.approx(gower(made[may], observed).min())


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_groups_keep_draws_in_which_other_columns_rise_and_fall(tmp_path):
    result = asked(inputs=1)
    kept = result.decided.nearest
    assert max(len(one.distances) for one in kept.values()) == 8
    assert all((np.diff(one.distances) >= 0).all() for one in kept.values())
    near = result.nearest()  # one input needs no name
    nearest = result.subset_names[min(kept, key=lambda row: kept[row].distances[0])]
    pd.testing.assert_frame_equal(near, result.nearest(0, nearest))
    up = result.nearest(direction={"income": "up", "debt": "down"}, fixed="town")
    assert up.income.iloc[0] >= PEOPLE.income[0]
    assert up.debt.iloc[0] <= PEOPLE.debt[0]
    assert up.town.iloc[0] == PEOPLE.town[0]
    again = butfor.load(result.save(tmp_path / "r.butfor"))
    pd.testing.assert_frame_equal(again.nearest(fixed=["town"], direction={"income": 1, "debt": -1}), up)


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_without_room_the_nearest_alone_is_kept(monkeypatch):
    rich = asked(inputs=2)
    monkeypatch.setattr("butfor.run.watchers.NEAREST_ROOM", 0)
    poor = asked(inputs=2)
    assert {len(one.distances) for one in poor.decided.nearest.values()} == {1}
    assert {row: one.distances[0] for row, one in poor.decided.nearest.items()} == {
        row: one.distances[0] for row, one in rich.decided.nearest.items()
    }


WRONG = {
    "unknown column": ({"fixed": ["wage"]}, "unknown column 'wage'; columns are 'income', 'debt', 'age', 'town'"),
    "no way": (
        {"direction": {"income": "north"}},
        "direction of 'income' must be 'up' or 'down', or 1 or -1, got 'nor",
    ),
    "twice": ({"fixed": ["age"], "direction": {"age": "up"}}, "column 'age' is in fixed and in direction"),
    "category": (
        {"direction": {"town": "up"}},
        "column 'town' holds categories, which have no direction; fixed= keeps",
    ),
}


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_what_cannot_be_asked_of_nearest():
    result = asked()
    for wrong, message in WRONG.values():
        with pytest.raises(butfor.InputError, match=message):
            result.nearest(0, **wrong)
    with pytest.raises(butfor.InputError, match="name an input; inputs are 0, 1, 2, 3"):
        result.nearest()
    with pytest.warns(
        butfor.ReachWarning, match=r"None of the \d+ draws kept that change .* \(income, debt, age and town\)"
    ):
        assert result.nearest(0, fixed=list(PEOPLE.columns)) is None


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
