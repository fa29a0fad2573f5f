"""Binomial tails of the control."""

import numpy as np
import pytest
from scipy.stats import binom

from butfor.run.control import LEVEL, TAILS, calibrated


@pytest.mark.parametrize("chance", TAILS)
@pytest.mark.parametrize("count", [1, 20, 201])
def test_binomial_tails_are_those_of_scipy(count, chance):
    """One subset, so many of whose p-values are small; what is at most .05 is in the tail up to .1, too."""
    for small in range(count + 1):
        p = np.where(np.arange(count) < small, chance, 1.0)[:, None]
        tails = [binom.sf(small * (chance <= tail) - 1, count, tail) for tail in TAILS]
        assert calibrated(p).tolist() == [len(TAILS) * min(tails) > LEVEL], small


@pytest.mark.parametrize("chance", TAILS)
def test_the_level_is_shared_by_the_subsets(chance):
    p = np.where(np.arange(50)[:, None] < np.arange(51), chance, 1.0)  # a subset for each number of small ones
    tails = np.array([binom.sf((p <= tail).sum(axis=0) - 1, 50, tail) for tail in TAILS])
    assert calibrated(p).tolist() == (len(TAILS) * tails.min(axis=0) > LEVEL / 51).tolist()
