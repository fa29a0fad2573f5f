"""The paper's beds (Synthetic Benchmark): two input distributions, two models, and sum |x_j| without training error."""

from __future__ import annotations

from functools import partial

import numpy as np

from butfor.evaluation.samplers import Sampler
from butfor.simulate.beds import Bed
from butfor.simulate.models import paired_threshold, sum_of_abs
from butfor.simulate.network import predict, trained
from butfor.simulate.samplers import normal, regression
from butfor.streams import stream
from butfor.tabular.splice import from_values
from butfor.types import Bools, Floats

INPUTS = 100
PAIRS, THRESHOLD = 50, 3.0
WIDTH = 25  # of the network and of sum |x_j|
SHARE = 0.3  # h: the probability of a feature to come from N(4, 1)
Beta = Floats | None  # (width,) how features depend on those before them; None where they are independent


def discontinuous(name: str, seed: int, *, correlated: bool) -> Bed:
    """The paired thresholding model on 100 inputs with 100 features.

    A feature matters if it came from N(4, 1) and its partner is large, |x| >= t: else it cannot change the output.
    """
    inputs, signal, beta = paper_inputs(seed, INPUTS, 2 * PAIRS, SHARE, correlated=correlated)
    weights = 0.5 + stream(seed, "weights", correlated).gamma(1.0, 1.0, PAIRS)
    partner = np.roll(np.abs(inputs) >= THRESHOLD, PAIRS, axis=1)
    model = partial(paired_threshold, weights=weights, threshold=THRESHOLD)
    return Bed(name, inputs, model, paper_sampler(beta), signal & partner)


def network(name: str, seed: int, *, correlated: bool) -> Bed:
    """A network that has learned sum |x_j|, on 100 inputs with 25 features; the first call for a seed trains it.

    A feature counts as important if it came from N(4, 1), as in the paper: the network uses all of them.
    """
    inputs, signal, beta = paper_inputs(seed, INPUTS, WIDTH, SHARE, correlated=correlated)

    def draw(count: int, rng: np.random.Generator) -> Floats:
        return mixture(count, WIDTH, SHARE, beta, rng)[0]

    weights = trained("correlated" if correlated else "independent", seed, draw)
    return Bed(name, inputs, partial(predict, weights=weights), paper_sampler(beta), signal)


def absolute(name: str, seed: int, *, correlated: bool, inputs: int = INPUTS, share: float = SHARE) -> Bed:
    """sum |x_j| itself on 25 features: with the same seed, the network's inputs without its training error."""
    rows, signal, beta = paper_inputs(seed, inputs, WIDTH, share, correlated=correlated)
    return Bed(name, rows, sum_of_abs, paper_sampler(beta), signal)


def paper_inputs(seed: int, count: int, width: int, share: float, *, correlated: bool) -> tuple[Floats, Bools, Beta]:
    """Inputs, which of their entries came from N(4, 1), and the run's beta."""
    beta = paper_beta(seed, width, correlated=correlated)
    return *mixture(count, width, share, beta, stream(seed, "inputs", width, correlated)), beta


def paper_beta(seed: int, width: int, *, correlated: bool) -> Beta:
    """The beta of a run, fixed for all of its rows."""
    return stream(seed, "beta", width).normal(0.0, 0.25, width) if correlated else None  # variance 1/16 (METHODS 1)


def mixture(count: int, width: int, share: float, beta: Beta, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """x_i ~ N(4, 1) with probability `share`, else N(m_i, 1) with m_i = sum_{j<i} beta_j x_j (or 0)."""
    signal = rng.random((count, width)) < share
    rows = rng.standard_normal((count, width))
    if beta is None:
        return rows + 4.0 * signal, signal
    mean = np.zeros(count)
    for i in range(width):
        rows[:, i] += np.where(signal[:, i], 4.0, mean)
        mean += beta[i] * rows[:, i]
    return rows, signal


def paper_sampler(beta: Beta) -> Sampler:
    """Q(x_i | x_-i) = N(m_i, 1), the law of a feature that is not a signal."""
    return from_values(normal if beta is None else partial(regression, beta=beta))
