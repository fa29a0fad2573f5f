"""Sampler: a regression of the subset on the rest of the row, and what it misses of reference rows it has not seen."""

from __future__ import annotations

from functools import partial

from butfor.tabular.donors import reference_rows, rows_of
from butfor.tabular.residual.design import Space
from butfor.tabular.residual.sampler import Residual
from butfor.tabular.splice import TableSampler, fitted
from butfor.tabular.table import Table
from butfor.types import InputError, whole

__all__ = ["residual"]


def residual(reference: object, *, seed: int = 0) -> TableSampler:
    """A sampler for tables of any kind, calibrated on rows that its fit has not seen.

    For every subset a regression on the rest of the row is fitted to the reference (ridge, its form and penalty chosen
    by the score of rows left out). A draw is the fitted mean and what the regression missed of a random reference row
    that it was fitted without: under the null the observed row is one such row more, so that p-values are ranks among
    exchangeable rows, whatever the noise looks like. Columns of few values get probabilities by logistic regression,
    and are listed; numbers of a group are drawn from one donor row together; missing values are redrawn, too.
    No p-value is much below one over the number of reference rows.

    Parameters
    ----------
    reference : rows as they look when there is nothing to report: controls, another class, last year.
    seed : picks the rows of a large reference on which choices are made.

    Examples
    --------
    >>> import numpy as np
    >>> residual(np.random.default_rng(0).normal(size=(200, 3)))
    residual(200 reference rows, 3 columns)
    """
    _, table = rows_of(reference)
    if len(table.values) < 2:
        raise InputError("the reference has one row; give more of what you compare against, at least 2")
    return _fitted(whole("seed", seed, 0), table)


def _fitted(seed: int, table: Table) -> TableSampler:
    rows = reference_rows(table)
    return fitted(Residual(rows, Space(rows, seed)), "residual", table, again=partial(_fitted, seed))
