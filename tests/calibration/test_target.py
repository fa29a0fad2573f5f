"""Which class is tested, and against what: METHODS 0 with every null true, and with a real shift."""

import numpy as np
import pytest
from scipy.stats import binom

import butfor
from butfor.inference.irt import p_fixed
from butfor.inference.osft import z_one_shot
from butfor.inference.selection import bh, knockoff_plus
from butfor.inference.statistics import Target, pick
from calibration_checks import controlled, powerful, proportions

INPUTS, ALPHA, RUNS = 40, 0.2, 200
SETTINGS = [(10, 5), (10, 20), (100, 5), (100, 20)]


def null_logits(rng, classes, features, draws):
    """Linear logits on N(0, 1) features redrawn from N(0, 1): every null is true.

    Returns logits (inputs, classes), weights (features, classes), and by how much each draw changes its feature
    (inputs * features, draws): logits of a draw are logits[i] + change * weights[j].
    """
    x = rng.standard_normal((INPUTS, features), dtype=np.float32)
    weights = rng.standard_normal((features, classes), dtype=np.float32)
    change = rng.standard_normal((INPUTS * features, draws), dtype=np.float32) - x.reshape(-1, 1)
    return x @ weights, weights, change


def versions(logits, weights, change):
    """Outputs (inputs * features, 1 + draws, classes), the observed first."""
    features = len(weights)
    observed = np.repeat(logits, features, axis=0)
    drawn = observed[:, None] + change[..., None] * np.tile(weights, (INPUTS, 1))[:, None]
    return np.concatenate([observed[:, None], drawn], axis=1)


def one_shot(rng, classes, features, target):
    logits, weights, change = null_logits(rng, classes, features, 1)
    values, _ = pick(versions(logits, weights, change), target(logits, features), np.arange(INPUTS * features))
    return knockoff_plus(z_one_shot(values), ALPHA).any()


def predicted(logits, features):
    return Target("predicted")


def observed_class(logits, features):
    return Target("per-input", np.repeat(logits.argmax(axis=1), features))


@pytest.mark.parametrize(("classes", "features"), SETTINGS)
def test_osft_of_the_predicted_class_makes_no_more_false_discoveries_than_it_may(classes, features):
    rng = np.random.default_rng(0)
    rate = np.mean([one_shot(rng, classes, features, predicted) for _ in range(RUNS)])
    assert rate <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize(("classes", "features"), SETTINGS)
def test_osft_of_the_observed_class_fails(classes, features):
    """The paper's way: the observed input has chosen the class in which it looks best."""
    rng = np.random.default_rng(0)
    assert np.mean([one_shot(rng, classes, features, observed_class) for _ in range(RUNS)]) >= 0.8


@pytest.mark.parametrize("features", [5, 20])
def test_irt_of_the_predicted_class_makes_no_more_false_discoveries_than_it_may(features):
    """With draws enough that a lone p-value can be chosen; 10 and 100 classes on the same draws. The largest of linear
    outputs is at an extreme draw, so the class can be picked from three versions of thousands; the p-value is then
    counted over all of them."""
    rng = np.random.default_rng(0)
    draws = round(INPUTS * features / ALPHA) - 1
    found = {10: 0, 100: 0}
    for _ in range(RUNS):
        logits, weights, change = null_logits(rng, 100, features, draws)
        ends = np.stack([change.min(axis=1), change.max(axis=1)], axis=1)
        statistic = np.concatenate([np.zeros((len(change), 1), np.float32), change], axis=1)
        both = np.stack([p_fixed(-statistic), p_fixed(statistic)], axis=1)  # by the sign of the weight
        for classes in found:
            outputs = versions(logits[:, :classes], weights[:, :classes], ends)
            _, chosen = pick(outputs, Target("predicted"), np.arange(len(change)))
            up = np.tile(weights, (INPUTS, 1))[np.arange(len(change)), chosen] > 0
            found[classes] += bh(both[np.arange(len(change)), up * 1], ALPHA).any()
    for classes in found:
        assert found[classes] / RUNS <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)


def test_extremes_give_the_same_class_as_all_draws():
    rng = np.random.default_rng(0)
    logits, weights, change = null_logits(rng, 10, 5, 30)
    _, full = pick(versions(logits, weights, change), Target("predicted"), np.arange(len(change)))
    ends = np.stack([change.min(axis=1), change.max(axis=1)], axis=1)
    _, short = pick(versions(logits, weights, ends), Target("predicted"), np.arange(len(change)))
    assert (full == short).all()


@pytest.mark.parametrize("test", ["irt", "osft"])
def test_the_same_through_explain(test):
    """Ten classes, five features, 40 inputs, 40 runs of each target."""
    found = {"predicted": 0, "observed-class": 0, 3: 0}
    runs = 40
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        inputs, weights = rng.normal(size=(INPUTS, 5)), rng.normal(size=(5, 10))
        sampler = butfor.tabular.from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, 1)))
        for target in found:
            result = butfor.explain(
                lambda rows, weights=weights: rows @ weights,
                inputs,
                sampler,
                test=test,
                target=target,
                alternative="greater",
                alpha=ALPHA,
                draws=999 if test == "irt" else None,
                seed=seed,
                effects=None,
                enough=None,
            )
            found[target] += result.chosen.any()
    most = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / runs)
    assert found["predicted"] / runs <= most
    assert found[3] / runs <= most
    if test == "osft":
        assert found["observed-class"] / runs >= 0.8


# Q is the foil


def correlated(rng, rows, width=6):
    """Correlated normal rows; returns also their covariance."""
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(width), np.arange(width)))
    return rng.multivariate_normal(np.zeros(width), covariance, size=rows), covariance


def shifted(rng, rows, share=0.15):
    """Rows in which some entries come from N(5, 1) and the others from the reference given them: exactly Q."""
    base, covariance = correlated(rng, rows)
    true = rng.uniform(size=base.shape) < share
    for row, moved in zip(base, true, strict=True):
        if moved.any():
            row[moved] = rng.normal(5, 1, size=moved.sum())
            if not moved.all():
                cross = covariance[np.ix_(~moved, moved)] @ np.linalg.inv(covariance[np.ix_(moved, moved)])
                spread = covariance[np.ix_(~moved, ~moved)] - cross @ covariance[np.ix_(moved, ~moved)]
                row[~moved] = rng.multivariate_normal(cross @ row[moved], spread)
    return base, true


def total(rows):
    return rows.sum(axis=1)


FOIL = {"test": "irt", "alternative": "greater", "draws": 499, "alpha": 0.1, "effects": None, "enough": None}


def test_with_the_population_for_q_nothing_is_found():
    """Inputs from the very population that Q describes: every null is true by construction, whatever they look like."""
    runs, found = 30, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        everyone, _ = shifted(rng, 2000, share=0.0)
        found += butfor.explain(
            total, everyone[:30], butfor.tabular.gaussian(everyone[30:]), seed=seed, **FOIL
        ).chosen.any()
    assert found <= binom.isf(1e-4, runs, 0.1)


def test_with_the_reference_for_q_the_shifted_features_are_found():
    false, found, pulled = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        reference, _ = correlated(rng, 3000)
        inputs, true = shifted(rng, 30)
        result = butfor.explain(total, inputs, butfor.tabular.gaussian(reference), seed=seed, **FOIL)
        rates = proportions(result.chosen[None], true.reshape(1, -1))
        false.append(rates[0][0])
        found.append(rates[1][0])
        marginal = butfor.explain(total, inputs, butfor.tabular.empirical(reference), seed=seed, **FOIL)
        pulled.append(proportions(marginal.chosen[None], true.reshape(1, -1))[0][0])
    controlled(np.array(false), 0.1)
    powerful(np.array(found), 0.7)
    assert np.mean(pulled) > 0.2  # a marginal Q pulls in what is correlated with a shifted feature


def test_one_sided_tests_look_at_one_side():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(2000, 2)), rng.normal([4, -4], 1, size=(40, 2))
    found = {
        side: butfor.explain(total, inputs, reference, **{**FOIL, "alternative": side}, subsets="columns")
        .table.query("chosen")
        .subset.unique()
        for side in ("greater", "less", "two-sided")
    }
    assert found["greater"].tolist() == ["x0"]
    assert found["less"].tolist() == ["x1"]
    assert sorted(found["two-sided"]) == ["x0", "x1"]


@pytest.mark.parametrize("test", ["irt", "osft"])
@pytest.mark.parametrize("center", [1, 16])
def test_two_sided_tests_keep_their_level(test, center):
    """Every null true, centre from pilot draws: any false discovery in at most alpha of the runs."""
    runs, found = 60, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        found += butfor.explain(
            total,
            rng.normal(size=(20, 5)),
            butfor.tabular.from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, 1))),
            test=butfor.irt(499, center=center) if test == "irt" else butfor.osft(center=center),
            alternative="two-sided",
            alpha=0.2,
            seed=seed,
            effects=None,
        ).chosen.any()
    assert found <= binom.isf(1e-4, runs, 0.2)
