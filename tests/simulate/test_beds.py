"""Beds: shapes, determinism, truth, and models that say what the paper's formulas say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import butfor
from butfor.inference.selection import knockoff_plus
from butfor.simulate import BEDS, bed, tables
from butfor.types import Subset

SHAPES = {
    "independent-discontinuous": (100, 100),
    "correlated-discontinuous": (100, 100),
    "sum-of-abs-independent": (100, 25),
    "sum-of-abs-correlated": (100, 25),
    "sparse": (4000, 25),
    "linear": (100, 20),
    "interactions": (100, 24),
    "few": (1, 20),
    "clones": (1, 100),
    "parity": (1, 20),
    "global-contrast": (100, 50),
    "boosted-trees": (100, 20),
    "copies": (100, 24),
}
# the probability that a null is false; a partner of either law has |x| >= 3 with probability 0.2543 on average
SHARES = {
    "independent-discontinuous": 0.3 * 0.2543,
    "sum-of-abs-independent": 0.3,
    "sum-of-abs-correlated": 0.3,
    "sparse": 0.01,
    "linear": 0.2 / 2,
    "interactions": 0.3 * 16 / 24,
    "few": 0.3,
    "clones": 0.0,
    "parity": 0.0,
    "global-contrast": 3 * (0.02 + 0.05 + 0.1 + 0.2 + 0.3) / 50,
    "copies": 0.3 / 2,
}


def test_every_bed_is_listed_here() -> None:
    assert set(SHAPES) | {"independent-network", "correlated-network"} == set(BEDS)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_types(name: str) -> None:
    made = bed(name, 3)
    assert made.name == name
    assert made.inputs.shape == made.truth.shape == SHAPES[name]
    assert made.inputs.dtype == np.float64
    assert made.truth.dtype == np.bool_
    outputs = made.model(made.inputs)
    assert outputs.shape == (len(made.inputs),)
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("name", SHAPES)
def test_the_seed_fixes_everything(name: str) -> None:
    one, same, other = bed(name, 3), bed(name, 3), bed(name, 4)
    np.testing.assert_array_equal(one.inputs, same.inputs)
    np.testing.assert_array_equal(one.truth, same.truth)
    np.testing.assert_array_equal(one.model(one.inputs), same.model(one.inputs))
    assert not np.array_equal(one.inputs, other.inputs)


@pytest.mark.parametrize("name", SHAPES)
def test_beds_travel_to_workers(name: str) -> None:
    made = bed(name, 3)
    back = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(back.model(made.inputs), made.model(made.inputs))
    subset = Subset("x1", np.array([1]))
    drawn = [one.sampler(made.inputs[:2], subset, 3, np.random.default_rng(0)) for one in (made, back)]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("name", SHARES)
def test_share_of_true_signals(name: str) -> None:
    made = [bed(name, seed) for seed in range(20)]
    truths = np.concatenate([one.truth.ravel() for one in made])
    share = SHARES[name]
    # pairs share a feature, so their truths hang together: twice the binomial standard error covers that
    assert abs(truths.mean() - share) <= 8 * np.sqrt(share * (1 - share) / len(truths)) + 1e-12


def test_unknown_names_and_seeds_are_refused() -> None:
    with pytest.raises(butfor.InputError, match=r"unknown bed 'indep'; choose one of independent-discontinuous, "):
        bed("indep")
    for seed in (-1, 1.5, True):
        with pytest.raises(butfor.InputError, match="seed must be a whole number of at least 0"):
            bed("few", seed)  # type: ignore[arg-type]


def test_a_partner_decides_whether_a_feature_can_matter() -> None:
    made = bed("independent-discontinuous", 0)
    partner = np.concatenate([made.inputs[:, 50:], made.inputs[:, :50]], axis=1)
    assert (np.abs(partner[made.truth]) >= 3).all()
    assert abs(made.inputs[made.truth].mean() - 4) < 0.15
    # where the partner is small no value of the feature changes the output
    row, column = np.argwhere(np.abs(partner) < 3)[0]
    rows = np.repeat(made.inputs[row : row + 1], 5, axis=0)
    rows[:, column] = [-9, -3, 0, 3, 9]
    assert len(np.unique(made.model(rows))) == 1


def test_paired_model_by_brute_force() -> None:
    made = bed("independent-discontinuous", 1)
    weights = made.model.keywords["weights"]  # type: ignore[attr-defined]
    assert weights.min() >= 0.5
    for x, y in zip(made.inputs[:5], made.model(made.inputs[:5]), strict=True):
        expected = sum(weights[i] for i in range(50) if abs(x[i]) >= 3 and abs(x[i + 50]) >= 3)
        assert y == pytest.approx(expected)


def test_the_two_kinds_of_inputs() -> None:
    rows, signal, beta = tables.paper_inputs(0, 20_000, 25, 0.3, correlated=True)
    assert beta is not None
    mean = rows @ np.triu(np.tile(beta[:, None], (1, 25)), 1)  # column i: sum over j < i of beta_j x_j
    left = np.where(signal, rows - 4, rows - mean)
    assert abs(left.mean()) < 0.01
    assert abs(left.std() - 1) < 0.01
    betas = np.concatenate([tables.paper_inputs(s, 1, 25, 0.3, correlated=True)[2] for s in range(400)])
    assert betas.std() == pytest.approx(0.25, rel=0.03)


def test_a_seed_has_the_same_inputs_with_and_without_training_error() -> None:
    rows, signal, _ = tables.paper_inputs(5, 100, 25, 0.3, correlated=True)
    np.testing.assert_array_equal(bed("sum-of-abs-correlated", 5).inputs, rows)
    np.testing.assert_array_equal(bed("sum-of-abs-correlated", 5).truth, signal)


def test_global_contrast_has_fifteen_features() -> None:
    truth = bed("global-contrast", 0).truth
    assert sorted(truth.sum(axis=0)) == [0] * 35 + [2] * 3 + [5] * 3 + [10] * 3 + [20] * 3 + [30] * 3


@pytest.mark.parametrize(("name", "alpha", "least", "most"), [("clones", 0.1, 0.4, 0.6), ("parity", 0.2, 0.4, 0.6)])
def test_where_one_shot_signs_are_tied_half_of_the_runs_are_wrong(
    name: str, alpha: float, least: float, most: float
) -> None:
    wrong = [knockoff_plus(_one_shot(name, seed), alpha).any() for seed in range(300)]
    assert least < np.mean(wrong) < most


def _one_shot(name: str, seed: int) -> np.ndarray:
    made, rng = bed(name, seed), np.random.default_rng(seed)
    width = made.inputs.shape[1]
    drawn = [made.sampler(made.inputs, Subset(f"x{j}", np.array([j])), 1, rng) for j in range(width)]
    return made.model(made.inputs) - made.model(np.concatenate(drawn))
