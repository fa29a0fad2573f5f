"""Intervals of effects cover on skewed outputs and rare jumps (METHODS 6), and are not much wider than they need be."""

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student

import butfor
from butfor.inference.effects import interval, pooled_extremes

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

REPEATS, LEAST = 2560, 0.93
RARE = norm.sf(2.3)  # .0107: a jump that 200 draws do not show in 11 of 100 cases


def jump(x):
    return 0.01 * x + 10 * (x > 2.3)


LAWS = {  # f, E f(x~) for x~ ~ N(0, 1), and where the observed input lies
    "exp(x)": (np.exp, np.exp(0.5), 2.0),
    "exp(1.5 x)": (lambda x: np.exp(1.5 * x), np.exp(1.125), 2.0),
    "rare jump": (jump, 10 * RARE, 2.5),
}
WORLDS = [(name, draws) for name in LAWS for draws in (200, 16)]


def drawn(name, draws, at=None):
    """Values (REPEATS, 1 + draws) and the true effect."""
    model, mean, place = LAWS[name]
    observed = model(np.array(place if at is None else at))
    null = model(np.random.default_rng(draws).normal(size=(REPEATS, draws)))
    return np.concatenate([np.full((REPEATS, 1), observed), null], axis=1), observed - mean


def covers(values, true, bounds=interval):
    _, low, high = bounds(values)
    return int(((low <= true) & (true <= high)).sum())


def enough(count, repeats=REPEATS):
    """At least .93, whatever binomial luck."""
    assert count >= repeats - binom.isf(0.5, repeats, 1 - LEAST), f"{count / repeats:.3f} covered"


def student_t(values):
    """Planted fault: the interval of the first edition."""
    effect, null = values[:, 0] - values[:, 1:].mean(axis=1), values[:, 1:]
    half = student.isf(0.025, null.shape[1] - 1) * null.std(axis=1, ddof=1) / np.sqrt(null.shape[1])
    return effect, effect - half, effect + half


def draws_alone(values):
    """Planted fault: the observed value is not within reach of a draw."""
    centred = values - values[:, :1]
    centred[:, 0] = values[:, 1:].mean(axis=1) - values[:, 0]
    shift = values[:, 0] - values[:, 1:].mean(axis=1)
    effect, low, high = interval(centred)
    return effect + shift, low + shift, high + shift


@pytest.mark.parametrize(("name", "draws"), WORLDS)
def test_intervals_cover_skewed_outputs_and_rare_jumps(name, draws):
    enough(covers(*drawn(name, draws)))


@pytest.mark.parametrize(
    ("name", "draws", "fault"),
    [
        ("exp(1.5 x)", 200, student_t),
        ("exp(1.5 x)", 16, student_t),
        ("rare jump", 200, student_t),
        ("rare jump", 16, student_t),
        ("rare jump", 200, draws_alone),
        ("rare jump", 16, draws_alone),
    ],
)
def test_that_check_finds_intervals_that_do_not_expect_the_unseen(name, draws, fault):
    with pytest.raises(AssertionError, match="covered"):
        enough(covers(*drawn(name, draws), fault))


@pytest.mark.parametrize("draws", [200, 16])
def test_other_inputs_show_what_an_ordinary_one_does_not(draws):
    """The observed value lies among the draws and most draws show no jump: only those of other inputs do."""
    values, true = drawn("rare jump", draws, at=0.0)
    parts = np.split(values, 10)
    enough(sum(covers(part, true, lambda rows: interval(rows, extremes=pooled_extremes(rows))) for part in parts))
    with pytest.raises(AssertionError, match="covered"):
        enough(covers(values, true))  # nothing in these values alone can know


@pytest.mark.parametrize(("draws", "most", "pooled_most"), [(200, 1.2, 1.25), (16, 1.3, 1.5)])
@pytest.mark.parametrize("observed", [0.0, 4.0])
def test_intervals_of_normal_draws_are_hardly_wider_than_students(draws, most, pooled_most, observed):
    null = np.random.default_rng(1).normal(size=(REPEATS, draws))
    values = np.concatenate([np.full((REPEATS, 1), observed), null], axis=1)
    _, low, high = interval(values)
    _, least, top = student_t(values)
    wide = 1.0 if observed == 0 or draws == 200 else 1.6  # of 16 draws one in five may lie where the observed does
    assert (high - low).mean() <= wide * most * (top - least).mean()
    _, low, high = interval(values, extremes=pooled_extremes(values))
    assert (high - low).mean() <= wide * pooled_most * (top - least).mean()


def test_two_values_get_clopper_and_pearsons_interval():
    """To the accuracy of 1,000 weights, which are the same for all."""
    for hits in (0, 1, 5, 40, 199):
        null = np.arange(200) < hits
        _, low, high = interval(np.concatenate([[1.0], null])[None])
        exact = binom_interval(hits, 200)
        np.testing.assert_allclose([1 - high[0], 1 - low[0]], exact, atol=0.006)


def binom_interval(hits, count):
    from scipy.stats import beta

    return (beta.ppf(0.025, hits, count - hits + 1) if hits else 0.0), beta.ppf(0.975, hits + 1, count - hits)


def test_a_higher_confidence_is_wider_and_scale_and_sign_do_not_matter():
    values = np.exp(np.random.default_rng(2).normal(size=(50, 201)))
    _, low, high = interval(values)
    _, lower, higher = interval(values, 0.99)
    assert (lower < low).all()
    assert (higher > high).all()
    _, scaled, _ = interval(values * 1e6 + 5)
    np.testing.assert_allclose(scaled, low * 1e6, rtol=1e-6)
    effect, mirrored, _ = interval(-values)
    np.testing.assert_allclose(-high - mirrored, 0, atol=0.15 * (effect - mirrored).max())


def test_inputs_of_another_scale_do_not_widen_an_interval():
    """f = exp(base) exp(x): what is within reach follows the input's own quartiles."""
    null = np.random.default_rng(3).normal(size=(200, 200))
    scale = np.where(np.arange(200) % 2, 1.0, 1e6)[:, None]
    values = np.concatenate([np.zeros((200, 1)), null], axis=1)
    _, low, high = interval(values, extremes=pooled_extremes(values))
    _, least, most = interval(values * scale, extremes=pooled_extremes(values * scale))
    np.testing.assert_allclose((most - least) / scale[:, 0], high - low, rtol=0.05)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("test", ["irt", "few-shot"])
def test_intervals_of_a_run_cover_after_selection(name, test):
    model, mean, _ = LAWS[name]
    rows = np.random.default_rng(4).normal(2, 1, size=(2500, 1))
    sampler = butfor.tabular.from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, 1)))
    settings = {"draws": 99} if test == "irt" else {}
    table = butfor.explain(
        lambda batch: model(batch[:, 0]), rows, sampler, test=test, alternative="greater", alpha=0.3, **settings
    ).table
    chosen = table.chosen.to_numpy()
    true = model(rows[chosen, 0]) - mean
    assert chosen.sum() > 500
    inside = (table.effect_low[chosen] <= true) & (true <= table.effect_high[chosen])
    enough(int(inside.sum()), int(chosen.sum()))
