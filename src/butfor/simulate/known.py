"""Beds whose truth is about the model as well, and beds on which a method is known to fail (METHODS 7 and 8)."""

from __future__ import annotations

from functools import partial

import numpy as np

from butfor.simulate.beds import Bed
from butfor.simulate.models import linear, products, sum_of_abs
from butfor.simulate.samplers import humps, independent, normal, signs
from butfor.streams import stream
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.splice import from_values
from butfor.types import Bools, Floats

LINEAR_WIDTH, LINEAR_SHARE, LINEAR_SHIFT = 20, 0.2, 5.0
CONTRAST_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)  # METHODS 7: three features each


def linear_gaussian(
    name: str, seed: int, *, inputs: int = 100, width: int = LINEAR_WIDTH, shift: float = LINEAR_SHIFT
) -> Bed:
    """A linear model that ignores every other column of correlated normal inputs; Q is their exact conditional.

    The shifted entries of a row come from N(shift, 1) first and the others from the reference given them. So x_j given
    the rest of its row has exactly the law Q wherever j was not shifted. True: shifted, and the weight is not zero.
    """
    rng = stream(seed, "linear", width)
    weights = np.where(np.arange(width) % 2 == 0, rng.uniform(0.5, 2.0, width), 0.0)
    covariance, shifted = linear_covariance(width), rng.random((inputs, width)) < LINEAR_SHARE
    rows = np.stack([_given_shifted(row, covariance, shift, rng) for row in shifted])
    sampler = from_values(known_normal(covariance).values)
    return Bed(name, rows, partial(linear, weights=weights), sampler, shifted & (weights != 0))


def linear_covariance(width: int = LINEAR_WIDTH) -> Floats:
    """Of the reference: columns that are k apart correlate by .5^k."""
    return np.asarray(0.5 ** np.abs(np.subtract.outer(np.arange(width), np.arange(width))))


def known_normal(covariance: Floats) -> Gaussian:
    """The conditional of N(0, covariance), known and not fitted."""
    precision = np.asarray(np.linalg.inv(covariance), np.float64)
    return Gaussian(np.zeros(len(covariance)), precision, (None,) * len(covariance))


def _given_shifted(shifted: Bools, covariance: Floats, shift: float, rng: np.random.Generator) -> Floats:
    """One row: its shifted entries from N(shift, 1), the others from N(0, covariance) given those."""
    row = rng.standard_normal(len(shifted)) + shift * shifted
    rest = ~shifted
    slope = np.linalg.solve(covariance[np.ix_(shifted, shifted)], covariance[np.ix_(shifted, rest)])
    spread = np.linalg.cholesky(covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, shifted)] @ slope)
    row[rest] = row[shifted] @ slope + spread @ row[rest]
    return row


def interactions(name: str, seed: int, *, inputs: int = 100, width: int = 24, pairs: int = 8) -> Bed:
    """sum |x_a x_b| over eight pairs of columns, and eight columns that the model does not use; independent N(0, 1).

    A share of 0.3 of the entries comes from N(4, 1). True: those of them that stand in a pair.
    """
    rng = stream(seed, "interactions", width)
    signal = rng.random((inputs, width)) < 0.3
    rows = rng.standard_normal((inputs, width)) + 4.0 * signal
    used = np.arange(width) < 2 * pairs
    return Bed(name, rows, partial(products, pairs=pairs), from_values(normal), signal & used)


def few(name: str, seed: int, *, width: int = 20) -> Bed:
    """METHODS 4, "20 hypotheses": sum |x_j| on one input, each feature from N(4, 1) with probability 0.3.

    At alpha = 0.1 OSFT has to choose ten or none, and BH on p-values of 1/11 nineteen or none.
    """
    rng = stream(seed, "few", width)
    signal = rng.random((1, width)) < 0.3
    return Bed(name, rng.standard_normal((1, width)) + 4.0 * signal, sum_of_abs, from_values(normal), signal)


def clones(name: str, seed: int, *, width: int = 100, jitter: float = 0.35) -> Bed:
    """One input whose features are copies of one number, under a model that adds them up; every null is true.

    The number is -1 or 1 and a little noise (sd 0.35), and Q redraws each copy from there without regard
    to the others. So every p-value is uniform, but all of them hang on that one number: OSFT at alpha = 0.1 makes a
    false discovery in half of the runs, whenever the number is near 1 (METHODS 8).
    """
    law = partial(humps, jitter=jitter)
    rows = np.repeat(law((1, 1), stream(seed, "clones")), width, axis=1)
    sampler = from_values(partial(independent, law=law))
    return Bed(name, rows, partial(linear, weights=np.ones(width)), sampler, np.zeros(rows.shape, bool))


def parities(name: str, seed: int, *, width: int = 20) -> Bed:
    """prod x_j on one input of independent signs; every null is true.

    A redrawn sign changes the output to its negative or not at all, so all z that are not 0 have the sign of f(x):
    OSFT at alpha = 0.2 makes a false discovery in half of the runs (METHODS 8).
    """
    rows = signs((1, width), stream(seed, "parity", width))
    sampler = from_values(partial(independent, law=signs))
    return Bed(name, rows, partial(np.prod, axis=1), sampler, np.zeros(rows.shape, bool))


def global_contrast(name: str, seed: int, *, inputs: int = 100, width: int = 50) -> Bed:
    """sum |x_j| on N(0, 1), with 15 features that in 2, 5, 10, 20 or 30 % of the inputs come from N(4, 1) (METHODS 7).

    A feature is true over the data set where any of its column of `truth` is.
    """
    rng = stream(seed, "global-contrast", width)
    shares = np.repeat(CONTRAST_SHARES, 3)
    signal = np.zeros((inputs, width), bool)
    for column, share in zip(rng.permutation(width), shares, strict=False):
        signal[rng.permutation(inputs)[: round(share * inputs)], column] = True
    rows = rng.standard_normal((inputs, width)) + 4.0 * signal
    return Bed(name, rows, sum_of_abs, from_values(normal), signal)
