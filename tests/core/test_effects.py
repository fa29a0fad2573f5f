"""Effects: fresh draws, honest intervals."""

import numpy as np
import pytest

import butfor
from butfor.core.result.effects import interval

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
    assert 0.93 <= coverage(null, mean, observed) <= 0.97


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
    assert 0.93 <= coverage(rng.normal(size=(4000, 16)), 0.0, 2.0) <= 0.97
    for share in SHARES:
        assert coverage((rng.uniform(size=(4000, 16)) < share) * 1.0, share, 1.0) >= 0.93


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_two_values_with_rounding_noise_are_still_two_values(share):
    # Was (effects.py, interval): distinct values are counted to the last bit, so a vote that comes out of BLAS with
    # rounding noise gets the t-interval (coverage .90 at a share of .02). Count values that differ by more than noise.
    rng = np.random.default_rng(0)
    null = (rng.uniform(size=(4000, 200)) < share) + 1e-14 * rng.normal(size=(4000, 200))
    assert coverage(null, share, observed=1.0) >= 0.93


def run(inputs, **settings):
    sampler = butfor.tabular.from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, 1)))
    settings = {"test": "irt", "draws": 19, "alternative": "greater", "alpha": 0.3, **settings}
    return butfor.explain(lambda rows: rows.sum(axis=1), inputs, sampler, **settings)


def test_effects_are_given_for_the_chosen_only():
    table = run(np.random.default_rng(0).normal(1, 1, size=(100, 2))).table
    assert 0 < table.chosen.sum() < len(table)
    for column in ("effect", "effect_low", "effect_high"):
        assert (table[column].notna() == table.chosen).all()
    assert (table.effect_low < table.effect)[table.chosen].all()
    assert (table.effect < table.effect_high)[table.chosen].all()


def test_effects_can_be_left_out():
    with_effects, without = (run(np.ones((60, 1)) * 3, keep_effects=keep) for keep in (True, False))
    assert with_effects.chosen.any()
    assert without.table.effect.isna().all()
    assert (with_effects.chosen == without.chosen).all()
    assert with_effects.rows > without.rows


def test_fresh_draws_are_unbiased_for_the_chosen_where_the_selecting_ones_are_not():
    """The winner's curse: the draws that made a hypothesis win are low by selection, new ones are not."""
    inputs = np.random.default_rng(1).normal(1, 1, size=(500, 2))
    result = run(inputs)
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
    table = run(inputs).table
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
