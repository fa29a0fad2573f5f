"""Weights learned across inputs: no more false discoveries than promised, far more power, planted faults are caught."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import adaptive as bench
from benchmarks.adaptive import BEDS, Matrix
from benchmarks.figures import markdown
from butfor.inference.adaptive import Learner, learn_weights, strict_e_values, weighted_bh
from butfor.inference.selection import adaptive, adaptive_strict, bh
from butfor.streams import stream
from calibration_checks import controlled, powerful, proportions

NULLS = [name for name in BEDS if name.startswith("null")]
ALPHA = 0.1


def chosen(matrix, seed, alpha=ALPHA, labels=None, clusters=None):
    """What the adaptive rule chooses (H,); labels are subsets and clusters are inputs unless others are given."""
    p = matrix.p.ravel()
    inputs, subsets = (places.ravel() for places in np.indices(matrix.p.shape))
    known = p if matrix.learn_from is None else matrix.learn_from.ravel()
    units = (inputs if clusters is None else clusters, subsets if labels is None else labels)
    return weighted_bh(p, *learn_weights(known, *units, alpha, stream(seed, "adaptive")), alpha)


def null_runs(bed, runs, alpha=ALPHA, **units):
    """In how many runs without any signal something is chosen."""
    return sum(bool(chosen(bed(stream(7, run)), run, alpha, **units).any()) for run in range(runs))


def credible(count, runs, alpha=ALPHA):
    return count <= binom.isf(1e-6, runs, alpha)


def test_nulls_of_every_dependence_within_inputs():
    runs = 25
    counts = {name: null_runs(BEDS[name], runs) for name in NULLS}
    assert all(credible(count, runs) for count in counts.values()), counts
    assert credible(sum(counts.values()), runs * len(counts)), counts


@pytest.mark.parametrize(
    ("name", "draws", "gain", "floor"),
    [
        ("200 x 13, weak in a quarter", None, 0.4, 0.5),
        ("200 x 13, weak in a quarter", 100, 0.3, 0.3),  # p-values are ranks among 101: BH finds nothing at all
        ("50 x 10, half", None, 0.2, 0.4),
        ("200 x 13, sparse", None, 0.05, 0.8),
        ("200 x 13, uniform", None, -0.02, 0.65),
    ],
)
def test_signals_beside_bh(name, draws, gain, floor):
    found, plain, truth = [], [], []
    for run in range(20):
        matrix = BEDS[name](stream(8, run))
        p = matrix.p if draws is None else (1 + stream(9, run).binomial(draws, matrix.p)) / (draws + 1)
        found.append(adaptive(p, ALPHA, seed=run).ravel())
        plain.append(bh(p.ravel(), ALPHA))
        truth.append(matrix.truth.ravel())
    false, right = proportions(np.array(found), np.array(truth))
    controlled(false, ALPHA)
    powerful(right, floor)
    powerful(right - proportions(np.array(plain), np.array(truth))[1], gain)


def wide(rng):
    """Few inputs, many subsets: there is always a subset that looks good by chance."""
    return Matrix(rng.random((25, 400)), np.zeros((25, 400), bool))


def test_weights_that_saw_their_own_fold_are_caught(monkeypatch):
    assert credible(null_runs(wide, 30, alpha=0.2), 30, alpha=0.2)
    learned = Learner._learned
    monkeypatch.setattr(Learner, "_learned", lambda self, others, own: learned(self, others | own, own))
    assert not credible(null_runs(wide, 30, alpha=0.2), 30, alpha=0.2)


def clones(rng):
    """All hypotheses of an input have one p-value."""
    return Matrix(np.repeat(rng.random((40, 1)), 100, axis=1), np.zeros((40, 100), bool))


def test_folds_by_hypothesis_are_caught_where_a_label_repeats_within_an_input():
    labels = np.repeat(np.arange(40) // 2, 100)
    assert credible(null_runs(clones, 40, labels=labels), 40)
    assert not credible(null_runs(clones, 40, labels=labels, clusters=np.arange(4000)), 40)


def copies(rng):
    """Ten inputs, each of them ten times."""
    return Matrix(np.tile(rng.random((10, 60)), (10, 1)), np.zeros((100, 60), bool))


def test_copies_of_inputs_are_one_cluster_and_caught_where_they_are_not():
    found = [bool(adaptive(copies(stream(7, run)).p, ALPHA, seed=run).any()) for run in range(150)]
    assert credible(sum(found), 150)
    assert not credible(null_runs(copies, 150), 150)


def test_copies_that_are_named_teach_no_more_than_one():
    def near(rng):
        return Matrix(np.repeat(rng.random((25, 30)), 8, axis=0), np.zeros((200, 30), bool))

    named = np.repeat(np.arange(25), 8 * 30)
    assert credible(null_runs(near, 20, alpha=0.2, clusters=named), 20, alpha=0.2)


def strict_runs(runs):
    """False and true proportions of the strict rule, and the mean e-value of true nulls over all hypotheses."""
    rates, means = [], []
    for run in range(runs):
        matrix = BEDS["200 x 13, weak in a quarter"](stream(10, run))
        found = adaptive_strict(matrix.p, ALPHA, seed=run).ravel()
        rates.append(np.concatenate(proportions(found[None], matrix.truth.reshape(1, -1))))
        inputs, subsets = (places.ravel() for places in np.indices(matrix.p.shape))
        e = strict_e_values(matrix.p.ravel(), inputs, subsets, ALPHA, stream(run, "e"))
        means.append(e[~matrix.truth.ravel()].sum() / e.size)
    return np.array(rates).T, np.array(means)


def test_the_strict_rule_keeps_its_proof_and_finds_more_than_bh():
    (false, right), means = strict_runs(20)
    controlled(false, ALPHA)
    powerful(right, 0.35)  # BH has .08 here
    controlled(means, 1.0)  # e-values of true nulls sum to at most the number of hypotheses
    assert means.mean() > 0.2


def test_the_bench_has_a_row_for_each_bed_that_is_asked_for():
    names = ("50 x 10, half", "null: clones")
    rows = bench.run(runs=2, beds=names)["beds"]
    assert tuple(row["name"] for row in rows) == names
    assert "strict" in rows[1]
    assert "strict" not in rows[0]
    assert all(f"| {name} | 2 |" in markdown({"beds": rows}) for name in names)
