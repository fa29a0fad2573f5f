"""Sequential p-values at the time they stop: valid on continuous and tied nulls; every planted fault is caught."""

import numpy as np
import pytest
from scipy.stats import binom

import butfor
from butfor.inference import sequential
from butfor.inference.selection import bh
from butfor.inference.sequential import besag_clifford, first_batch, p_sequential, steps_ahead
from butfor.run import tests
from butfor.tabular import from_values
from calibration_checks import batches

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NULLS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "four values": lambda rng, shape: rng.integers(0, 4, size=shape).astype(float),
    "rare": lambda rng, shape: (rng.random(shape) < 0.03) * 1.0,
}
LEVELS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)


def is_valid(p):
    """No level u at which p <= u more often than a binomial of n and u ever is (chance 1e-6)."""
    return all((p <= u * (1 + 1e-12)).sum() <= binom.isf(1e-6, p.size, u) for u in LEVELS)


def stopped(
    law, h, cap, *, size=20_000, seed=0, until=None, exceeds=np.greater_equal, count=besag_clifford, p_of=p_sequential,
    closes=True,
):  # fmt: skip
    """p-values of `size` true nulls when drawing stops: at the h-th exceedance, when `until(p)` says so, or at the cap.

    The keywords after `until` are where faults are planted.
    """
    rng = np.random.default_rng(seed)
    observed = NULLS[law](rng, (size, 1))
    draws, exceeded, p = np.zeros(size, np.int64), np.zeros(size, np.int64), np.ones(size)
    for batch in batches(h, cap):
        still = np.flatnonzero((exceeded < h) | (not closes))
        if not still.size:
            break
        hits = exceeds(NULLS[law](rng, (len(still), batch)), observed[still])
        draws[still], exceeded[still] = count(hits, np.ones_like(hits), draws[still], exceeded[still], h)
        p[still] = p_of(draws[still], exceeded[still], h)
        if until is not None and until(p):
            break
    return p


@pytest.mark.parametrize("law", NULLS)
@pytest.mark.parametrize(("h", "cap"), [(5, 8), (5, 60), (5, 400), (10, 30), (10, 300), (20, 100), (20, 600)])
def test_p_values_are_valid_when_they_stop(law, h, cap):
    assert is_valid(stopped(law, h, cap))


@pytest.mark.parametrize("law", NULLS)
@pytest.mark.parametrize("h", [5, 10, 20])
def test_p_values_are_valid_at_a_time_chosen_by_looking_at_them(law, h):
    """Two hundred families of ten; each is stopped for good once BH at .4 rejects anything, or at the cap."""
    p = [stopped(law, h, 700, size=10, seed=family, until=lambda p: bh(p, 0.4).any()) for family in range(200)]
    assert is_valid(np.concatenate(p))
    looked = sum(bh(part, 0.4).any() for part in p)
    assert looked <= binom.isf(1e-6, 200, 0.4)
    assert looked >= 30 or law != "normal"  # it does happen


def batch_end(hits, counted, draws, exceeded, h):
    """A planted fault: counting stops at the end of the batch in which the h-th exceedance lies."""
    counted = np.ones_like(hits) if counted is None else counted
    total = exceeded + (hits & counted).sum(axis=1)
    return draws + counted.sum(axis=1), np.minimum(total, h)


def share(draws, exceeded, h):
    """A planted fault: the share of exceedances, without the h that stands for what is still to come."""
    return exceeded / draws


FAULTS = {
    "frozen at the batch's end": ("normal", {"count": batch_end}),
    "larger in place of not smaller": ("four values", {"exceeds": np.greater}),
    "larger in place of not smaller, rare": ("rare", {"exceeds": np.greater}),
    "L / n": ("normal", {"p_of": share}),
    "draws counted after closing": ("normal", {"count": batch_end, "closes": False}),
    "h - 1 in the numerator": ("normal", {"p_of": lambda draws, exceeded, h: (h - 1) / (draws + h - exceeded)}),
}


@pytest.mark.parametrize("h", [5, 10, 20])
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault, h):
    law, planted = FAULTS[fault]
    assert is_valid(stopped(law, h, 300))
    assert not is_valid(stopped(law, h, 300, **planted))


def among_signals(law, h, cap, size=20_000, count=besag_clifford):
    """p-values of true nulls among nine times as many signals, and how often one looked: there looks are left out."""
    rng = np.random.default_rng(0)
    observed, never = NULLS[law](rng, (size, 1)), np.zeros(9 * size, np.int64)  # no draw of a signal exceeds
    draws, exceeded, p, drawn, looks = np.zeros(size, np.int64), np.zeros(size, np.int64), np.ones(size), 0, 0
    while drawn < cap:
        still = np.flatnonzero(exceeded < h)
        far = np.concatenate([exceeded[still], never])
        decides = lambda draws, far=far: bool(bh(p_sequential(np.full(len(far), draws), far, h), 0.01).any())  # noqa: E731
        batch = steps_ahead(drawn, cap, h, far, decides) if drawn else first_batch(h, cap)
        drawn, looks = drawn + batch, looks + 1
        hits = NULLS[law](rng, (len(still), batch)) >= observed[still]
        draws[still], exceeded[still] = count(hits, None, draws[still], exceeded[still], h)
        p[still] = p_sequential(draws[still], exceeded[still], h)
    return p, looks


@pytest.mark.parametrize("law", NULLS)
@pytest.mark.parametrize("h", [5, 10, 20])
def test_p_values_are_valid_where_looks_are_left_out(law, h):
    p, looks = among_signals(law, h, 700)
    assert is_valid(p)
    assert looks < 0.7 * len(list(batches(h, 700)))


def test_the_end_of_a_long_batch_is_no_place_to_stop_counting():
    p, _ = among_signals("normal", 10, 700, count=batch_end)
    assert not is_valid(p)


# ---- through explain --------------------------------------------------------------------------------------------


def sampler(law):
    return from_values(lambda rows, subset, count, rng: NULLS[law](rng, (len(rows) * count, len(subset.index))))


def sums(rows):
    return rows.sum(axis=1)


def null_run(law, seed=0, inputs=1500, **settings):
    rows = NULLS[law](np.random.default_rng(seed), (inputs, 8))
    settings = {"alternative": "greater", "draws": 120, "effects": None, **settings}
    return butfor.explain(sums, rows, sampler(law), seed=seed, **settings).table.p.to_numpy()


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
@pytest.mark.parametrize("law", NULLS)
def test_p_values_of_a_run_are_valid(law, alternative):
    assert is_valid(null_run(law, alternative=alternative))


def plant(monkeypatch, fault):
    if fault == "batch end":
        monkeypatch.setattr(sequential, "besag_clifford", batch_end)
    elif fault == "share":
        monkeypatch.setattr(sequential, "p_sequential", share)
    else:  # ties count for us: the observed statistic a hair larger than it is
        plain = tests.centred_statistic

        def nudged(*arguments):
            statistic, *rest = plain(*arguments)
            statistic[:, 0] += 1e-7
            return statistic, *rest

        monkeypatch.setattr(tests, "centred_statistic", nudged)


@pytest.mark.parametrize(("fault", "law"), [("batch end", "normal"), ("share", "normal"), ("ties", "four values")])
def test_faults_planted_in_a_run_are_caught(monkeypatch, fault, law):
    assert is_valid(null_run(law))
    plant(monkeypatch, fault)
    assert not is_valid(null_run(law))


# ---- the false discovery rate -----------------------------------------------------------------------------------


def mixture(seed, law="normal", inputs=20, width=10, shift=4.0):
    """sum |x_j|, a fifth of the entries shifted."""
    rng = np.random.default_rng(seed)
    truth = rng.random((inputs, width)) < 0.2
    return NULLS[law](rng, (inputs, width)) + shift * truth, truth.ravel()


def proportions(runs=60, alpha=0.1, **settings):
    """False discovery proportion and power of each run."""
    fdp, tpr = [], []
    for seed in range(runs):
        rows, truth = mixture(seed)
        result = butfor.explain(
            lambda batch: np.abs(batch).sum(axis=1), rows, sampler("normal"), alternative="greater", alpha=alpha,
            seed=seed, effects=None, **settings,
        )  # fmt: skip
        chosen = result.chosen
        fdp.append((chosen & ~truth).sum() / max(chosen.sum(), 1))
        tpr.append(chosen[truth].mean())
    return np.array(fdp), np.array(tpr)


def test_bh_on_a_mixture_keeps_its_level_and_has_power():
    fdp, tpr = proportions()
    assert fdp.mean() <= 0.1 + 4 * fdp.std() / np.sqrt(len(fdp))
    assert fdp.mean() > 0.04  # about .08 = alpha times the share of nulls: the level is used
    assert tpr.mean() >= 0.9


def test_a_fault_on_a_mixture_is_seen(monkeypatch):
    plant(monkeypatch, "share")
    fdp, _ = proportions(runs=15)
    assert fdp.mean() > 0.1 + 4 * fdp.std() / np.sqrt(len(fdp))


# ---- the predicted class ----------------------------------------------------------------------------------------


def class_runs(target, runs, test="sequential", **settings):
    """Every null true: linear logits of 10 classes, 5 features, 40 inputs. All p-values, and any false discovery."""
    p, false = [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=(5, 10))
        result = butfor.explain(
            lambda rows, w=weights: rows @ w, rng.normal(size=(40, 5)), sampler("normal"), target=target, seed=seed,
            test=test, alpha=0.1, effects=None, enough=None, **settings,
        )  # fmt: skip
        p.append(result.evidence.values)
        false.append(result.chosen.any())
    return np.concatenate(p), np.array(false)


def test_the_predicted_class_keeps_p_values_valid():
    """T(y) = y[c] - b[c], c = argmax y, is one function of y for the observed input and its draws alike (b comes from
    draws of its own), so these p-values are exactly valid: METHODS measured 4.9 to 5.5 % at .05, we 4.7 % (s.e. .15).
    So the bound is the binomial one at the level itself, not at .055. p-values of one input share its output and hang
    together, which widens the count's spread; 1e-6 leaves room for that.
    """
    p, false = class_runs("predicted", 100)
    assert is_valid(p)
    assert (p <= 0.05).mean() >= 0.03  # not by doing nothing
    assert false.mean() <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / len(false))


def test_the_observed_class_does_not():
    """The class that only the observed input was asked for: x has helped to choose T (METHODS 0)."""
    p, _ = class_runs("observed-class", 25, draws=400)
    assert not is_valid(p)
