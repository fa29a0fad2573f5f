"""Samplers that draw rows of a finite reference make nothing beyond them: competitions count those wins as false."""

import numpy as np
import pytest
from scipy.stats import binom

from butfor.inference.selection import knockoff_plus, seqstep

ROWS, INPUTS, COLUMNS, ALPHA, RUNS = 100, 400, 5, 0.1, 60


def null_values(seed, draws):
    """Observed values and their draws (hypotheses, 1 + draws), all of one law; a draw is the observed one at times."""
    rng = np.random.default_rng(seed)
    observed = rng.standard_t(5, (INPUTS, COLUMNS))
    reference = rng.standard_t(5, (ROWS, COLUMNS))
    donors = rng.integers(ROWS + 1, size=(INPUTS, COLUMNS, draws))
    drawn = reference[np.minimum(donors, ROWS - 1), np.arange(COLUMNS)[:, None]]
    drawn = np.where(donors == ROWS, observed[..., None], drawn)
    return np.concatenate([observed[..., None], drawn], axis=2).reshape(-1, 1 + draws)


def osft(seed, beyond):
    values = null_values(seed, 1)
    return knockoff_plus(values[:, 0] - values[:, 1], ALPHA, beyond)


def few_shot(seed, beyond):
    values = null_values(seed, 10)
    best = values.max(axis=1)
    alone = (values == best[:, None]).sum(axis=1) == 1
    size = best - np.sort(values, axis=1)[:, :-1].mean(axis=1)
    return seqstep(np.where(alone, np.where(values[:, 0] == best, size, -size), 0.0), ALPHA, 10, beyond)


def runs_with_a_discovery(choose, beyond):
    return sum(choose(seed, beyond).any() for seed in range(RUNS))


@pytest.mark.parametrize("choose", [osft, few_shot])
def test_null_runs_keep_their_level(choose):
    beyond = INPUTS * COLUMNS / (ROWS + 1)
    assert runs_with_a_discovery(choose, beyond) <= binom.isf(1e-4, RUNS, ALPHA)


def test_wins_without_a_rival_that_are_not_counted_are_caught():
    """40 of 60 runs; of the one-shot test, whose losses are as large, none."""
    assert runs_with_a_discovery(few_shot, 0.0) > binom.isf(1e-4, RUNS, ALPHA)
