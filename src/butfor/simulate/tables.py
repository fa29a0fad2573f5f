"""Beds of tables: the paper's (Synthetic Benchmark), some whose truth is about the model, some where methods fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from butfor.evaluation.samplers import Sampler
from butfor.simulate.network import predict, sum_of_abs, trained
from butfor.streams import stream
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.splice import from_values
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Model, Subset

INPUTS = 100
PAIRS, THRESHOLD = 50, 3.0
WIDTH = 25  # of the network and of sum |x_j|
SHARE, SHIFT = 0.3, 4.0  # h: a feature comes from N(4, 1) with this probability
LINEAR_WIDTH, LINEAR_SHARE, LINEAR_SHIFT = 20, 0.2, 5.0
TREE_PAIRS, TREE_CORRELATION = 10, 0.5
COPY_PAIRS, COPY_CORRELATION = 12, 0.9
Beta = Floats | None  # (width,) how features depend on those before them; None where they are independent
Distribution = Callable[[tuple[int, ...], np.random.Generator], Floats]  # independent values of any shape


@dataclass(frozen=True, eq=False)
class Bed:
    """A problem whose answer is known: `truth` has for each input and column if its null is false."""

    name: str
    inputs: Floats  # (n, d)
    model: Model
    sampler: Sampler
    truth: Bools  # (n, d)

    def __repr__(self) -> str:
        count, width = self.inputs.shape
        return f"<Bed {self.name!r}: {count} inputs, {width} columns, {int(self.truth.sum())} true signals>"


def discontinuous(name: str, seed: int, *, correlated: bool) -> Bed:
    """Return the paper's paired thresholding model on 100 inputs with 100 features.

    A feature matters if it came from N(4, 1) and its partner is large, |x| >= t: else it cannot change the output.
    """
    inputs, signal, beta = paper_inputs(seed, INPUTS, 2 * PAIRS, SHARE, correlated=correlated)
    weights = 0.5 + stream(seed, "weights", correlated).gamma(1.0, 1.0, PAIRS)
    partner = np.roll(np.abs(inputs) >= THRESHOLD, PAIRS, axis=1)
    model = partial(paired_threshold, weights=weights, threshold=THRESHOLD)
    return Bed(name, inputs, model, paper_sampler(beta), signal & partner)


def paired_threshold(rows: Batch, weights: Floats, threshold: float) -> Floats:
    """Return sum_i w_i 1[|x_i| >= t and |x_{i+p}| >= t].

    >>> paired_threshold(np.array([[3.0, 4.0, -3.0, 0.0]]), np.array([2.0, 5.0]), 3.0)
    array([2.])
    """
    large = np.abs(rows) >= threshold
    pairs = len(weights)
    return np.asarray((large[:, :pairs] & large[:, pairs:]) @ weights)


def network(name: str, seed: int, *, correlated: bool) -> Bed:
    """Return a network that has learned sum |x_j|, on 100 inputs with 25 features; the first call for a seed trains it.

    A feature counts as important if it came from N(4, 1), as in the paper: the network uses all of them.
    """
    inputs, signal, beta = paper_inputs(seed, INPUTS, WIDTH, SHARE, correlated=correlated)

    def draw(count: int, rng: np.random.Generator) -> Floats:
        return mixture(count, WIDTH, SHARE, beta, rng)[0]

    weights = trained("correlated" if correlated else "independent", seed, draw)
    return Bed(name, inputs, partial(predict, weights=weights), paper_sampler(beta), signal)


def absolute(name: str, seed: int, *, correlated: bool, inputs: int = INPUTS, share: float = SHARE) -> Bed:
    """Return sum |x_j| itself on 25 features: with the same seed, the network's inputs without its training error."""
    rows, signal, beta = paper_inputs(seed, inputs, WIDTH, share, correlated=correlated)
    return Bed(name, rows, sum_of_abs, paper_sampler(beta), signal)


def paper_inputs(seed: int, count: int, width: int, share: float, *, correlated: bool) -> tuple[Floats, Bools, Beta]:
    """Return inputs, which of their entries came from N(4, 1), and the run's beta."""
    beta = paper_beta(seed, width, correlated=correlated)
    return *mixture(count, width, share, beta, stream(seed, "inputs", width, correlated)), beta


def paper_beta(seed: int, width: int, *, correlated: bool) -> Beta:
    """Return the beta of a run, fixed for all of its rows."""
    return stream(seed, "beta", width).normal(0.0, 0.25, width) if correlated else None  # variance 1/16 (METHODS 1)


def mixture(count: int, width: int, share: float, beta: Beta, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Draw x_i ~ N(4, 1) with probability `share`, else N(m_i, 1) with m_i = sum_{j<i} beta_j x_j (or 0)."""
    signal = rng.random((count, width)) < share
    rows = rng.standard_normal((count, width))
    if beta is None:
        return rows + SHIFT * signal, signal
    mean = np.zeros(count)
    for i in range(width):
        rows[:, i] += np.where(signal[:, i], SHIFT, mean)
        mean += beta[i] * rows[:, i]
    return rows, signal


def paper_sampler(beta: Beta) -> Sampler:
    """Return Q(x_i | x_-i) = N(m_i, 1), the distribution of a feature that is not a signal."""
    return from_values(normal if beta is None else partial(regression, beta=beta))


# Samplers of values: (inputs, subset, draws, rng) -> new values (len(inputs) * draws, columns), input-major.


def normal(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
    """Draw independent N(0, 1), whatever the rest of the row is."""
    return rng.standard_normal((len(inputs) * draws, len(subset.index)))


def independent(
    inputs: Array, subset: Subset, draws: int, rng: np.random.Generator, distribution: Distribution
) -> Floats:
    """Draw from `distribution`, whatever the rest of the row is."""
    return distribution((len(inputs), draws, len(subset.index)), rng).reshape(-1, len(subset.index))


def regression(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator, beta: Floats) -> Floats:
    """Draw from the paper's correlated Q: x_i ~ N(sum_{j<i} beta_j x_j, 1), from the values that the row really has.

    In a group of columns the later ones follow the new values of the earlier ones.
    """
    columns = np.asarray(subset.index)
    fresh = rng.standard_normal((len(inputs), draws, len(columns)))
    for position in np.argsort(columns):
        column = columns[position]
        # Multiply and sum, not a matrix product: a row's bits then do not depend on the rows beside it.
        fresh[:, :, position] += (inputs[:, :column] * beta[:column]).sum(axis=1)[:, None]
        if len(columns) > 1:
            earlier = columns < column
            changed = fresh[:, :, earlier] - inputs[:, None, columns[earlier]]
            fresh[:, :, position] += (changed * beta[columns[earlier]]).sum(axis=2)
    return fresh.reshape(-1, len(columns))


def linear_gaussian(name: str, seed: int, *, shift: float = LINEAR_SHIFT) -> Bed:
    """Return a linear model that ignores every other column of correlated normal inputs; Q is exact.

    The shifted entries of a row come from N(shift, 1) first and the others from the reference given them. So x_j given
    the rest of its row has exactly the distribution Q wherever j was not shifted. True: shifted, and the weight is not
    zero.
    """
    inputs, width = INPUTS, LINEAR_WIDTH
    rng = stream(seed, "linear", width)
    weights = np.where(np.arange(width) % 2 == 0, rng.uniform(0.5, 2.0, width), 0.0)
    covariance, shifted = linear_covariance(width), rng.random((inputs, width)) < LINEAR_SHARE
    rows = np.empty((inputs, width))
    for row, signal in zip(rows, shifted, strict=True):
        row[:] = rng.standard_normal(width) + shift * signal
        rest = ~signal
        slope = np.linalg.solve(covariance[np.ix_(signal, signal)], covariance[np.ix_(signal, rest)])
        spread = np.linalg.cholesky(covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, signal)] @ slope)
        row[rest] = row[signal] @ slope + spread @ row[rest]
    sampler = from_values(known_normal(covariance).values)
    return Bed(name, rows, partial(linear, weights=weights), sampler, shifted & (weights != 0))


def linear(rows: Batch, weights: Floats) -> Floats:
    """Return sum_j w_j x_j; a weight of zero is a feature that the model does not use.

    >>> linear(np.array([[1.0, 2.0]]), np.array([3.0, 0.0]))
    array([3.])
    """
    return np.asarray((rows * weights).sum(axis=1))


def linear_covariance(width: int = LINEAR_WIDTH) -> Floats:
    """Return the covariance of the reference: columns that are k apart correlate by .5^k."""
    return np.asarray(0.5 ** np.abs(np.subtract.outer(np.arange(width), np.arange(width))))


def known_normal(covariance: Floats) -> Gaussian:
    """Return the conditional distribution of N(0, covariance), known and not fitted."""
    precision = np.asarray(np.linalg.inv(covariance), np.float64)
    return Gaussian(np.zeros(len(covariance)), precision, (None,) * len(covariance))


def interactions(name: str, seed: int, *, inputs: int = INPUTS, width: int = 24, pairs: int = 8) -> Bed:
    """Return sum |x_a x_b| over eight pairs of columns, and eight columns that the model does not use; N(0, 1).

    A share of 0.3 of the entries comes from N(4, 1). True: those of them that are in a pair.
    """
    rng = stream(seed, "interactions", width)
    signal = rng.random((inputs, width)) < SHARE
    rows = rng.standard_normal((inputs, width)) + SHIFT * signal
    used = np.arange(width) < 2 * pairs
    return Bed(name, rows, partial(products, pairs=pairs), from_values(normal), signal & used)


def products(rows: Batch, pairs: int) -> Floats:
    """Return sum_i |x_{2i} x_{2i+1}| over the first pairs of columns: interactions without main effects.

    >>> products(np.array([[2.0, -3.0, 7.0]]), pairs=1)
    array([6.])
    """
    used = np.abs(rows[:, : 2 * pairs])
    return np.asarray((used[:, ::2] * used[:, 1::2]).sum(axis=1))


def few(name: str, seed: int, *, width: int = 20) -> Bed:
    """METHODS 4, "20 hypotheses": sum |x_j| on one input, each feature from N(4, 1) with probability 0.3.

    At alpha = 0.1 OSFT has to choose ten or none, and BH on p-values of 1/11 nineteen or none.
    """
    rng = stream(seed, "few", width)
    signal = rng.random((1, width)) < SHARE
    return Bed(name, rng.standard_normal((1, width)) + SHIFT * signal, sum_of_abs, from_values(normal), signal)


def clones(name: str, seed: int, *, width: int = 100) -> Bed:
    """Return one input whose features are copies of one number, under a model that adds them up; every null is true.

    The number is -1 or 1 and a little noise (sd 0.35), and Q redraws each copy from there without regard
    to the others. So every p-value is uniform, but all of them depend on that one number: OSFT at alpha = 0.1 makes a
    false discovery in half of the runs, whenever the number is near 1 (METHODS 8).
    """
    rows = np.repeat(humps((1, 1), stream(seed, "clones")), width, axis=1)
    sampler = from_values(partial(independent, distribution=humps))
    return Bed(name, rows, partial(linear, weights=np.ones(width)), sampler, np.zeros(rows.shape, bool))


def humps(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw from the mixture of N(-1, 0.35^2) and N(1, 0.35^2): the sign of one normal and a little of another."""
    raw = rng.standard_normal((*shape, 2))  # both from one array: appending inputs leaves the draws of the others
    return np.asarray(np.copysign(1.0, raw[..., 0]) + 0.35 * raw[..., 1])


def parities(name: str, seed: int, *, width: int = 20) -> Bed:
    """Return prod x_j on one input of independent signs; every null is true.

    A redrawn sign changes the output to its negative or not at all, so all z that are not 0 have the sign of f(x):
    OSFT at alpha = 0.2 makes a false discovery in half of the runs (METHODS 8).
    """
    rows = signs((1, width), stream(seed, "parity", width))
    sampler = from_values(partial(independent, distribution=signs))
    return Bed(name, rows, partial(np.prod, axis=1), sampler, np.zeros(rows.shape, bool))


def signs(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return np.asarray(rng.integers(0, 2, size=shape) * 2.0 - 1.0, np.float64)


def global_contrast(name: str, seed: int, *, inputs: int = INPUTS, width: int = 50) -> Bed:
    """Return sum |x_j| on N(0, 1); 15 features come from N(4, 1) in 2, 5, 10, 20 or 30 % of the inputs (METHODS 7).

    A feature is true over the data set where any of its column of `truth` is.
    """
    rng = stream(seed, "global-contrast", width)
    signal = np.zeros((inputs, width), bool)
    for column, share in zip(rng.permutation(width), np.repeat((0.02, 0.05, 0.1, 0.2, 0.3), 3), strict=False):
        signal[rng.permutation(inputs)[: round(share * inputs)], column] = True
    rows = rng.standard_normal((inputs, width)) + SHIFT * signal
    return Bed(name, rows, sum_of_abs, from_values(normal), signal)


@dataclass(frozen=True, eq=False)
class GridPairs:
    """Columns k and k + pairs are two correlated normals, rounded to a grid: every conditional is a list."""

    pairs: int
    correlation: float
    low: float = -6.0
    high: float = 9.0
    step: float = 0.25

    changes_subset_only = True

    @cached_property
    def levels(self) -> Floats:
        return np.arange(self.low, self.high + self.step / 2, self.step)

    @cached_property
    def given(self) -> Floats:
        """Return (levels, levels): row b is the distribution of a column whose partner has the b-th value."""
        mass = np.exp(-((self.levels - self.correlation * self.levels[:, None]) ** 2) / (2 - 2 * self.correlation**2))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def indices(self, values: Floats) -> Ints:
        return np.clip(np.rint((values - self.low) / self.step), 0, len(self.levels) - 1).astype(np.int64)

    def partner(self, subset: Subset) -> int:
        if len(subset.index) != 1:
            raise InputError(f"this bed redraws one column at a time, got {subset.name!r}; test columns")
        return int((subset.index[0] + self.pairs) % (2 * self.pairs))

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        return self.follow(np.repeat(inputs[:, self.partner(subset)], draws), rng)[:, None]

    def follow(self, partners: Floats, rng: np.random.Generator) -> Floats:
        below = np.cumsum(self.given, axis=1)[self.indices(partners)]
        drawn = (below < rng.random(len(partners))[:, None] * below[:, -1:]).sum(axis=1)
        return np.asarray(self.levels[drawn])

    def lists(self, subset: Subset) -> bool:
        return len(subset.index) == 1

    def support(self, inputs: Array, subset: Subset) -> tuple[Floats, Floats]:
        mass = self.given[self.indices(inputs[:, self.partner(subset)])]
        return np.broadcast_to(self.levels[None, :, None], (*mass.shape, 1)), mass

    def __call__(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        rows = np.repeat(inputs, draws, axis=0)
        rows[:, subset.index] = self.values(inputs, subset, draws, rng)
        return rows


def boosted_trees(name: str, seed: int, *, inputs: int = INPUTS) -> Bed:
    """Fit boosted trees to sum w_k |x_k| + noise over ten columns, each correlated (.5) with a noise column.

    A share of 0.3 of the entries of the ten comes from N(4, 1), and the noise columns follow. The trees split on noise
    columns as well; those are null all the same, since their values have the distribution Q. True: shifted, and at this
    row the trees are not constant in the column.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows, shifted = tree_rows(seed, inputs, SHARE, "inputs")
    seen, _ = tree_rows(seed, 2000, SHARE, "training")
    rng = stream(seed, "boosted-trees", "response")
    response = weighted_abs(seen, rng.uniform(0.5, 2.0, TREE_PAIRS)) + rng.standard_normal(len(seen))
    trees = HistGradientBoostingRegressor(max_iter=100, max_leaf_nodes=15, early_stopping=False, random_state=0)
    trees.fit(seen, response)
    sampler = GridPairs(TREE_PAIRS, TREE_CORRELATION)
    count, varies = len(sampler.levels), np.zeros_like(shifted)
    for column in range(TREE_PAIRS):
        versions = np.repeat(rows[shifted[:, column]], count, axis=0)
        versions[:, column] = np.tile(sampler.levels, int(shifted[:, column].sum()))
        varies[shifted[:, column], column] = np.ptp(trees.predict(versions).reshape(-1, count), axis=1) > 0
    return Bed(name, rows, trees.predict, sampler, shifted & varies)


def weighted_abs(rows: Batch, weights: Floats) -> Floats:
    """Return sum_k w_k |x_k| over the first columns; those beyond the weights are not used.

    >>> weighted_abs(np.array([[1.0, -2.0, 7.0]]), np.array([3.0, 1.0]))
    array([5.])
    """
    return np.asarray((np.abs(rows[:, : len(weights)]) * weights).sum(axis=1))


def tree_rows(seed: int, count: int, share: float, what: str) -> tuple[Floats, Bools]:
    """Return rows of ten columns and their noise columns on the grid, and which entries were shifted."""
    pairs, rng = GridPairs(TREE_PAIRS, TREE_CORRELATION), stream(seed, "boosted-trees", what)
    shifted = np.zeros((count, 2 * TREE_PAIRS), bool)
    shifted[:, :TREE_PAIRS] = rng.random((count, TREE_PAIRS)) < share
    used = pairs.levels[pairs.indices(rng.standard_normal((count, TREE_PAIRS)) + SHIFT * shifted[:, :TREE_PAIRS])]
    noise = np.stack([pairs.follow(column, rng) for column in used.T], axis=1)
    return np.hstack([used, noise]), shifted


def copies(name: str, seed: int, *, inputs: int = INPUTS) -> Bed:
    """Return sum w_k |x_k| over twelve columns, each with a copy (correlation .9) that the model does not use.

    A share of 0.3 of the entries of the twelve is replaced by N(4, 1); the copies are not. A copy then contradicts its
    column, but no redrawn copy changes the output. True: the replaced ones.
    """
    rows, replaced = copied_rows(seed, inputs, SHARE, "inputs")
    weights = 0.5 + stream(seed, "copies", "weights").gamma(1.0, 1.0, COPY_PAIRS)
    pair = np.array([[1.0, COPY_CORRELATION], [COPY_CORRELATION, 1.0]])
    covariance = np.asarray(np.kron(pair, np.eye(COPY_PAIRS)), np.float64)
    sampler = from_values(known_normal(covariance).values)
    return Bed(name, rows, partial(weighted_abs, weights=weights), sampler, replaced)


def copied_rows(seed: int, count: int, share: float, what: str) -> tuple[Floats, Bools]:
    """Return rows of twelve columns and their copies, and which entries were replaced."""
    rng = stream(seed, "copies", what)
    used, noise = rng.standard_normal((2, count, COPY_PAIRS))
    copy = COPY_CORRELATION * used + np.sqrt(1 - COPY_CORRELATION**2) * noise
    replaced = np.hstack([rng.random((count, COPY_PAIRS)) < share, np.zeros((count, COPY_PAIRS), bool)])
    signal = SHIFT + rng.standard_normal((count, COPY_PAIRS))
    return np.hstack([np.where(replaced[:, :COPY_PAIRS], signal, used), copy]), replaced
