"""Features that stand by themselves, beside those chosen from coarse to fine: the promise of each resolution."""

import numpy as np
import pytest

import butfor.inference.features as features
from butfor.inference.selection import Layers

RUNS, ALPHA = 4000, 0.1
RESOLUTION = np.repeat([0, 1, 2], [1, 4, 16])
PARENT = np.concatenate([[-1], np.zeros(4, np.int64), 1 + np.arange(16) // 4])
TREE = Layers(RESOLUTION, PARENT)


def false_shares(truth, tied=False):
    """Mean share of false ones among those chosen at each resolution, and its standard error, (resolutions, 2)."""
    rng, found = np.random.default_rng(0), np.zeros((RUNS, 3))
    for run in range(RUNS):
        p = np.where(truth, 1e-9, rng.random(21))
        p = np.ceil(p * 20) / 20 if tied else p
        chosen = features._least_alpha(TREE, p, np.ones(21, bool), ALPHA, None) <= ALPHA
        found[run] = [(chosen & ~truth)[own].sum() / max(1, chosen[own].sum()) for own in LEVELS]
    return np.column_stack([found.mean(axis=0), found.std(axis=0) / np.sqrt(RUNS)])


LEVELS = [level == RESOLUTION for level in range(3)]
TRUTHS = {
    "every null true": np.zeros(21, bool),
    "a column whose groups are drowned": np.arange(21) == 7,
    "a column and its groups": np.isin(np.arange(21), [0, 1, 5]),
}


def bounded(found):
    assert (found[:, 0] <= ALPHA + 2 * found[:, 1]).all(), f"too many: {found.round(3).tolist()}"


@pytest.mark.parametrize("tied", [False, True], ids=["continuous", "tied"])
@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_false_ones_of_each_resolution(truth, tied):
    bounded(false_shares(truth, tied))


def test_one_that_is_drowned_is_found():
    p = np.where(np.arange(21) == 7, 1e-9, 0.5)
    assert np.flatnonzero(features._least_alpha(TREE, p, np.ones(21, bool), ALPHA, None) <= ALPHA).tolist() == [7]


def test_standing_alone_without_counting_the_others_is_caught(monkeypatch):
    monkeypatch.setattr(features, "ALONE", 21.0)  # each at alpha by itself
    nothing = np.full(21, -np.inf)  # over 1 - ALONE, which is negative: the tree chooses nothing
    monkeypatch.setattr(features.Choice, "least_alpha", lambda *_: nothing)
    with pytest.raises(AssertionError, match="too many"):
        bounded(false_shares(TRUTHS["every null true"]))
