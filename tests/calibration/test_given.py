"""What is enough and what moves an output, against known truth, with planted faults (METHODS 17, 22)."""

import numpy as np
import pytest

from benchmarks import given
from butfor.inference import moves
from butfor.run.watchers import Flips
from butfor.tabular.residual.sampler import ConditionalDistribution

pytestmark = pytest.mark.slow


def summed(one, *cell, runs):
    return given._summary([one(*cell, seed=seed) for seed in range(runs)])


@pytest.mark.parametrize("bed", ["normal", "slope by sex"])
def test_what_is_enough_is_enough(bed):
    figures = summed(given.enough_run, bed, 100, runs=5)
    assert figures["coverage"] >= 0.95
    assert figures["wrong"] <= given.ALPHA + 2 * figures["wrong_se"]
    assert figures["have"] > 0.4  # of the inputs


def test_a_fit_taken_as_right_is_caught(monkeypatch):
    """Planted fault: draws and donors alone make the interval, not how far the fit may be off."""
    monkeypatch.setattr(Flips, "between_rounds", lambda self: np.zeros(len(self.draws)))
    monkeypatch.setattr(ConditionalDistribution, "errors", no_errors)
    honest = 0.95
    assert summed(given.enough_run, "lognormal", 100, runs=5)["coverage"] < honest


def no_errors(self, inputs, draws, together, rng):
    return np.zeros((len(inputs), draws, len(self.numeric))), np.zeros((len(inputs), draws, 1))


@pytest.mark.parametrize("size", [0, 100])
@pytest.mark.parametrize("output", ["probability", "skewed", "lumped"])
def test_intervals_of_moves_hold(output, size):
    figures = summed(given.moves_run, "normal", output, size, runs=6)
    assert figures["coverage"] >= 0.95
    assert figures["wrong"] <= given.ALPHA + 2 * figures["wrong_se"]


def test_intervals_of_the_draws_alone_are_caught(monkeypatch):
    """Planted fault: Student's t of however many draws were made, and nothing for what they have not shown."""
    monkeypatch.setattr(moves, "mixture_radius", lambda draws, alpha: np.full(len(draws), 1.96))
    monkeypatch.setattr(moves, "mixture_low", lambda hits, draws, alpha: np.ones(len(draws)))
    assert summed(given.moves_run, "normal", "lumped", 0, runs=6)["coverage"] < 0.95


def test_an_unread_copy_is_never_enough_without_the_column_it_copies():
    figures = summed(given.copies, 300, 0.3, runs=4)
    assert figures["found"] > 20
    assert figures["alone"] == 0
